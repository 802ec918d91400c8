# The machines that are built in: their files become strings in one C file of the build folder. (The folder is
# named, too, so that a file that is taken away is missed.)
MACHINES       := $(sort $(wildcard common/model/machines/*.machine))
MACHINES_C     := $(BUILD)/obj/common/model/machines.c
MACHINE_STRING := s/[\\"?]/\\&/g; s/^/    "/; s/$$/\\n"/

$(MACHINES_C): $(MACHINES) common/model/machines common/model/machines.mk
	@mkdir -p $(@D)
	$(call QUIET,$@){ echo '#include "common/model/machine.h"'; echo 'const MachineFile machine_files[] = {'; \
	    for file in $(MACHINES); do echo "{\"$$(basename $$file .machine)\","; sed '$(MACHINE_STRING)' $$file; echo '},'; done; \
	    echo '{0, 0}};'; } >$@
$(MACHINES_C).o: $(MACHINES_C) $(CONFIG)
	$(call QUIET,$<)$(CC) $(CFLAGS_ALL) -MMD -MP -c $< -o $@
