# What this machine has: CONFIG, a file of variables that .make/probe.sh writes.

NEEDS_CONFIG := $(filter-out help help-all clean plots lint,$(or $(MAKECMDGOALS),all))
PROBED       := $(CONFIG:config.mk=probed)

ifneq ($(NEEDS_CONFIG),)
-include $(CONFIG)
# Found once, except what was not found: that is looked for each time.
SETTINGS := CC=$(CC) CUDA=$(CUDA) ARCH=$(ARCH) WERROR=$(WERROR) CFLAGS=$(CFLAGS)
ifneq ($(SETTINGS)|$(strip $(MISSING)$(LACKING)),$(CONFIG_SETTINGS)|)
$(PROBED): always
.PHONY: always
endif
endif

# `make` says what was found each time, other goals when it changed.
ALL_IS_A_GOAL := $(filter all,$(or $(MAKECMDGOALS),all))
show_found = sed -n 's/^\#! /  /p' $1

# CONFIG keeps its date, and what depends on it is not made again, when nothing has changed.
$(CONFIG): $(PROBED) ;
$(PROBED): Makefile .make/config.mk .make/probe.sh
	@mkdir -p $(@D)
	@CC='$(CC)' CUDA='$(CUDA)' ARCH='$(ARCH)' sh .make/probe.sh >$@
	@echo 'CONFIG_SETTINGS := $(SETTINGS)' >>$@
	@cmp -s $@ $(CONFIG) || { $(if $(ALL_IS_A_GOAL),,$(call show_found,$@);) cp $@ $(CONFIG); }

report: $(CONFIG)
	@$(if $(ALL_IS_A_GOAL),$(call show_found,$(CONFIG)))
	@test -z '$(strip $(MISSING))' || { echo 'make: error: missing: $(MISSING)' >&2; \
	    echo 'hint: make $(if $(filter command,$(origin CC)),CC=$(if $(word 2,$(CC)),"$(CC)",$(CC)) )setup' >&2; exit 1; }
