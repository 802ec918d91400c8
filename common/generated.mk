# C files that are made of other files, in the build folder. MACHINES_C has the machines that are built in: their files as
# strings. (The folder is named, too, so that a file that is taken away is missed.) FONT_C has the font for pictures.
MACHINES       := $(sort $(wildcard common/model/machines/*.machine))
MACHINES_C     := $(BUILD)/obj/machines.c
MACHINE_STRING := s/[\\"?]/\\&/g; s/^/    "/; s/$$/\\n"/
FONT_C         := $(BUILD)/obj/font.c
GENERATED      := $(MACHINES_C) $(FONT_C)

$(MACHINES_C): $(MACHINES) common/model/machines common/generated.mk
	@mkdir -p $(@D)
	$(call QUIET,$@){ echo '#include "common/model/machine.h"'; echo 'const MachineFile machine_files[] = {'; \
	    for file in $(MACHINES); do echo "{\"$$(basename $$file .machine)\","; sed '$(MACHINE_STRING)' $$file; echo '},'; done; \
	    echo '{0, 0}};'; } >$@
$(eval $(call KEEP,font,$(FONT)))
$(FONT_C): $(FONT) common/generated.mk $(WITH)/font
	@mkdir -p $(@D)
	$(call QUIET,$@){ echo 'extern const unsigned char picture_font_file[];'; echo 'const unsigned char picture_font_file[] = {'; \
	    od -An -v -tu1 '$<' | sed 's/[0-9][0-9]*/&,/g'; echo '};'; } >$@
$(GENERATED:%=%.o): %.o: % $(WITH)/c
	$(call QUIET,$<)$(CC) $(CFLAGS_ALL) -MMD -MP -c $< -o $@
