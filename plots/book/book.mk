# make book: the chapters as web pages and notebooks, with what they print. It is made of the C files as they are, by
# pandoc, with readers in Lua:
#
#   1. Each chapter is compiled once more, so that it tells which function prints what, and run.    record.c, run.sh
#   2. Comments become prose, code is coloured and linked, and each section gets what it printed.   *.lua
#   3. The commands of chapters/questions.md are run, too.                                   shown.sh, shown.lua
#   4. All of it takes the place of the old book when nothing has failed.                           book.sh
#   5. Programs of chapters with a file in_browser run in their pages, as WebAssembly.       wasi.js, run.js
#
# make lab-sheets, make book-pdf: the labs' pages (they need no runs) and the whole book as PDF.   sheets.sh
#
# RUN=0 takes the output of the last run, EDITION=instructor adds the answers to the labs' questions, and IMAGES=all all
# 70,000 images for programs that run in a page (35 MB; else 3,000). BOOK_REPOSITORY=ADDRESS is where notebooks copy the
# project from, if they do not lie in it; else it is where git got it from (remote origin).

RUN     ?= 1
EDITION ?= student

BOOK_CHAPTERS := $(notdir $(CHAPTERS))
ASKED         := predict_first predict_yes_no predict_compare predict_compare_yes_no # record.c has its own
RECORDED      := $(BOOK_CHAPTERS:%=$(BUILD)/recorded/%)
RUNS          := $(BOOK_CHAPTERS:%=$(BUILD)/runs/%/stdout)

# (All files of the chapter come before the library, which has them, too.)
recorded_objects = $(patsubst %,$(BUILD)/recorded/obj/%.o,$(filter-out %/in_one_file.c %/no_ranks.c,$(wildcard chapters/$1/*.c \
                   chapters/$1/behind/*.c))) $(BUILD)/obj/plots/book/record.c.o
$(foreach chapter,$(BOOK_CHAPTERS),$(eval $(call MADE_OF,$(BUILD)/recorded/$(chapter),$(call recorded_objects,$(chapter)))))

$(BUILD)/recorded/obj/%.c.o: %.c $(WITH)/c
	@mkdir -p $(@D)
	$(call QUIET,$<)$(CC) $(CFLAGS_ALL) -finstrument-functions -MMD -MP -c $< -o $@

$(RECORDED): $(LIBRARY) $(WITH)/link
	@mkdir -p $(@D)
	$(call QUIET,$@)$(LINK) $(NO_PIE) $(ASKED:%=-Xlinker --wrap=%) -o $@ $(filter %.o,$^) $(LIBRARY) $(LIBS)

# A program that was linked again, and is the same, need not run again; one that gets other flags, or other ranks, must.
$(RECORDED:%=%.same): %.same: %
	@cmp -s $< $@ || cp $< $@
$(foreach chapter,$(BOOK_CHAPTERS),$(eval $(call KEEP,run-$(chapter),$(RUN_$(firstword $(subst _, ,$(chapter)))) $(if \
    $(wildcard chapters/$(chapter)/ranks),$(MPI)) $(file <chapters/$(chapter)/recorded))))
$(RUNS): $(BUILD)/runs/%/stdout: $(BUILD)/recorded/%.same $(WITH)/run-%
	$(SAY_HOW_LONG)
	$(call QUIET,chapter $* runs; $(call LEFT,$(firstword $(subst _, ,$*))))sh plots/book/run.sh $(<:.same=) $* $(@D)

# What commands of the page of questions print. The commands run the programs themselves, not the recorded ones.
SHOWN       := $(BUILD)/runs/questions/shown
SHOWN_BY    := $(CHAPTERS) $(BUILD)/08_many_machines_exercise_2
$(SHOWN): chapters/questions.md plots/book/shown.sh $(SHOWN_BY)
	$(call QUIET,chapters/questions.md runs; $(call LEFT,questions))sh plots/book/shown.sh $(BUILD) $(@D)

# (Before the first of them.)
SAY_HOW_LONG = $(if $(SAID_SO),,$(eval SAID_SO := yes)@echo 'book: the chapters run now: twelve to seventeen minutes on two free cores, half of them for chapter 5; longer on busy ones')
# $(call LEFT,04): "about 14 min left", before that part runs. (Seconds of each on two free cores; where those before it
# took longer, the others will.)
PARTS      := 00 2 01 5 02 10 03 5 04 90 05 400 06 10 07 180 08 240 09 10 10 160 11 60 questions 30
BOOK_BEGAN  = $(eval BOOK_BEGAN := $(shell date +%s))$(BOOK_BEGAN)
LEFT        = $(shell echo $(PARTS) | awk -v part=$1 -v took=$$(($$(date +%s) - $(BOOK_BEGAN))) '{ \
    for (i = 1; i < NF; i += 2) { if ($$i == part) comes = 1; if (comes) left += $$(i + 1); else done += $$(i + 1) } \
    printf "about %d min left", left * (done > 20 && took > done ? took / done : 1) / 60 + 1 }')

.PHONY: book book-serve book-pdf book-check book-notebooks lab-sheets recorded
recorded: $(RECORDED)
	@:
book: report
	@sh plots/book/book.sh $(BUILD) $(EDITION) tools
ifneq ($(RUN),0)
	+@$(MAKE_PARALLEL) recorded $(SHOWN_BY) $(if $(WASM_CC),$(WASM_PROGRAMS))
	+@$(MAKE) --no-print-directory SIDE_BY_SIDE=1 -j$(or $(RUNS_AT_ONCE),1) wanted WANTED='$(RUNS) $(SHOWN)'
endif
	@sh plots/book/book.sh $(BUILD) $(EDITION)

# Looks at every page in a browser, and says how long the chapters are.
book-check:
	@sh plots/book/check.sh $(BUILD)/book
	@python3 tests/page_size.py $(BUILD)
book-serve:
	@sh plots/book/serve.sh $(BUILD)/book
lab-sheets:
	@sh plots/book/sheets.sh $(BUILD) $(EDITION) labs
book-pdf:
	@sh plots/book/sheets.sh $(BUILD) $(EDITION) whole
book-notebooks:
	@sh tests/book_notebooks.sh $(BUILD)
