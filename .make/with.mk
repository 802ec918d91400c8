# What files are made with: flags, the compiler's version, which objects. Such a text is kept in a file of its own, on which
# all that is made with it depends. When the text changes the file is written again, and what depends on it made again.
#
#   $(eval $(call KEEP,NAME,TEXT))          build/with/NAME has TEXT
#   $(eval $(call MADE_OF,FILE,OBJECTS))    FILE depends on OBJECTS, and on which they are: one may have gone

WITH := $(BUILD)/with

define KEEP
$(WITH)/$1: $(if $(findstring <$(strip $2)>,<$(strip $(file <$(WITH)/$1))>),,always) | exact
	@mkdir -p $$(@D)
	@printf '%s\n' $(subst $$,$$$$,$(call quoted,$2)) >$$@
endef
define MADE_OF
$1: $2 $(1:$(BUILD)/%=$(WITH)/%.objects)
$(call KEEP,$(1:$(BUILD)/%=%.objects),$2)
endef
