# The kernels for CPUs: each file of kernels/cpu and kernels/cpu/fast once for each instruction set that config.mk
# names in ISAS.
#
# The flags are those of the psABI's levels of x86-64, one by one, because older compilers do not know the
# levels' names. A set's objects become one, of which only the table of kernels and the product can be seen, and
# of one set also the plain loops that the tests compare with. BOOK_ISA=v2 in the environment picks one when a
# program runs.
ISA_FLAGS_plain :=
ISA_FLAGS_v1    :=
ISA_FLAGS_v2    := -mcx16 -mpopcnt -msahf -msse4.2
ISA_FLAGS_v3    := $(ISA_FLAGS_v2) -mavx2 -mbmi -mbmi2 -mf16c -mfma -mlzcnt -mmovbe
ISA_FLAGS_v4    := $(ISA_FLAGS_v3) -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl
OBJCOPY         ?= objcopy
CPU_SOURCES     := $(wildcard kernels/cpu/*.c kernels/cpu/fast/*.c)

# (Nobody asks errno whether a root was of a number below 0; then a loop with roots is vectors, too.)
ADAM_FLAGS := -fno-math-errno
$(BUILD)/obj/kernels/cpu-%/adam.c.o: CFLAGS_ALL += $(ADAM_FLAGS)

CPU_OBJECTS := $(ISAS:%=$(BUILD)/obj/kernels/cpu-%.o)
$(BUILD)/obj/kernels/cpu.c.o: CFLAGS_ALL += $(ISAS:%=-DHAS_%)
$(BUILD)/obj/kernels/cpu.c.o: $(WITH)/isas
$(eval $(call KEEP,isas,$(ISAS) $(LD) $(OBJCOPY)))

# A product and the addition of it are one operation where the CPU has one: more exact, twice as fast. (What CC and CFLAGS
# say of a machine, such as -march=native, would put its instructions into all sets.)
define INSTRUCTION_SET
CPU_FLAGS_$1 := -ffp-contract=fast $(ISA_FLAGS_$1) -DISA=$1
$(BUILD)/obj/kernels/cpu-$1/%.c.o: kernels/cpu/%.c $(WITH)/c $(WITH)/cpu-$1
	@mkdir -p $$(@D)
	$$(call QUIET,$$< ($1))$$(filter-out $(if $(filter-out plain,$1),-m%),$$(CC) $$(CFLAGS_ALL)) $$(CPU_FLAGS_$1) -MMD -MP -c $$< -o $$@
$(call MADE_OF,$(BUILD)/obj/kernels/cpu-$1.o,$(CPU_SOURCES:kernels/cpu/%=$(BUILD)/obj/kernels/cpu-$1/%.o))
$(BUILD)/obj/kernels/cpu-$1.o: $(WITH)/isas
	@$$(LD) -r -o $$@ $$(filter %.o,$$^)
	@$$(OBJCOPY) -w --keep-global-symbol='cpu_kernels_$1' --keep-global-symbol='cpu_product_$1' \
	    $$(if $$(filter $1,$$(firstword $$(ISAS))),--keep-global-symbol='*_naive' --keep-global-symbol=winograd_suits) $$@
endef
$(foreach isa,$(ISAS),$(eval $(call INSTRUCTION_SET,$(isa))))
$(foreach isa,$(ISAS),$(eval $(call KEEP,cpu-$(isa),$(CPU_FLAGS_$(isa)) $(ADAM_FLAGS))))
