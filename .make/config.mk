# What this machine has: CONFIG, a file of variables that .make/probe.sh writes. Nothing depends on it but through what it
# says (.make/with.mk).

NEEDS_CONFIG := $(filter-out help help-all clean plots lint,$(or $(MAKECMDGOALS),all))

ifneq ($(NEEDS_CONFIG),)
-include $(CONFIG)
# PROBED has what probe.sh --state said last time. When it says something else, all is looked up again; so it is while
# something is missing without which nothing can be built.
PROBED    := $(CONFIG:config.mk=probed)
ask_state  = $(YOURS) CONFIG='$(CONFIG)' sh .make/probe.sh --state
ifeq ($(MAKE_RESTARTS),)
ifneq ($(strip $(MISSING)$(shell $(ask_state))),$(strip $(file <$(PROBED))))
$(CONFIG): always
endif
endif
endif

# `make` says what was found each time, other goals when it changed.
ALL_IS_A_GOAL := $(filter all,$(or $(MAKECMDGOALS),all))
show_found = sed -n 's/^\#! /  /p' $1

$(CONFIG):
	@$(call may_write,$(@D))
	@mkdir -p $(@D) && $(YOURS) sh .make/probe.sh >$@.new && printf 'SETTINGS := %s\n' $(call quoted,$(YOURS)) >>$@.new
	@cmp -s $@.new $@ || { $(if $(ALL_IS_A_GOAL),,$(call show_found,$@.new);) cp $@.new $@; }
	@rm $@.new && $(ask_state) >$(PROBED)

# Somebody else, such as root, may have made folders of the build. (In POSIX's words: busybox's find has no -writable.)
may_write = at=$$(find $(if $(wildcard $1),$1,$(or $(wildcard $(dir $1)),.) -prune) -path build/torch -prune -o \
    \( -type d -o ! -user $$(id -u) \) -exec sh -c 'for at; do [ -w "$$at" ] || echo "$$at"; done' sh {} + 2>/dev/null | head -n 1); \
    test -z "$$at" || { \
    echo "make: error: $$(id -un) cannot write to $$at, which belongs to $$(stat -c %U "$$at")" >&2; \
    echo "hint: $(if $(wildcard $1),as root: chown -R $$(id -un) $1 plots,work in a copy of this folder)" >&2; exit 1; }

# A variable that you set yourself is not missing, make ZLIB= either.
missing  = $(filter-out $(foreach set,JANSSON:libjansson-dev ZLIB:zlib1g-dev,$(if $(filter command%,$(origin \
           $(firstword $(subst :, ,$(set))))),$(lastword $(subst :, ,$(set))))),$(MISSING))
optional = $(filter-out $(MISSING),$(LACKING))
# Results are compared to the last bit, and with those of other machines.
INEXACT := $(filter -ffast% -Ofas% -funsafe% -ffinite% -fassociative% -freciprocal% -fno-signed-zeros \
           -ffp-contract=fast -mrecip%,$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(OPTIMIZE))

report: $(CONFIG) exact
	@$(call may_write,$(BUILD))
	@$(if $(ALL_IS_A_GOAL),$(call show_found,$(CONFIG)))
	@$(if $(missing),echo 'make: error: missing: $(missing)$(if $(optional), (and for some goals: $(optional)))' >&2; \
	    echo 'hint: make $(if $(filter-out cc,$(CC)),CC=$(if $(word 2,$(CC)),"$(CC)",$(CC)) )setup' >&2; exit 1)
	@$(if $(DROPPED),echo 'make: $(DROPPED) is left out: it cannot be used here' >&2)
# (What is compiled or linked depends on this through with.mk, whichever goal asks for it.)
.PHONY: exact
exact:
	@$(if $(INEXACT),echo 'make: error: $(INEXACT) among the flags: arithmetic would not be exact' >&2; \
	    echo 'hint: here the same bits are promised on all machines; leave it out' >&2; exit 1)
	@sh .make/stale.sh $(BUILD)
