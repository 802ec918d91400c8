#!/bin/sh
# chapter_00_test.sh BUILD: chapter 0's numbers, those that its questions ask about: modelled times, bytes, gradients.
# Prints TAP.
name=00_devices_and_queues
. "$(dirname "$0")/chapter.sh"

# Modelled: side by side takes LOW to HIGH times as long as device 0 alone, one after the other about K times; and the
# host, which enqueues both ways as fast, is done before the devices are.
as_modelled() { # LOW HIGH K
    figures log 'function not_so(what) { print what ": " $0 }
        /^  device 0 alone / { alone = $NF }
        /^  all, side by side / { enqueued = $(NF - 1); t = $NF / alone
            if (!(t >= '"$1"' && t < '"$2"')) not_so("side by side " t)
            if (!(enqueued < $NF && ($(NF - 3) < $(NF - 2) || $(NF - 2) == "-"))) not_so("enqueued") }
        /^  all, one after the other / { n++; t = $NF / alone / '"$3"'
            if (!(t > 0.95 && t < 1.05 && $(NF - 1) < 1.1 * enqueued)) not_so("one after the other") }
        END { if (n != 1 || !(enqueued > 0)) print n " tables" }'
}
main_run
good
figures log 'length > 100'
verdict "ends well; no line is too long for a page"
as_modelled 1 1.1 2
verdict "modelled: two devices take as long as one side by side, and twice as long one after the other"
log_rows <<'ROWS'
[a-z]*:0[0#]* to [a-z]*:1?[0#1]*: | 4,194,304 bytes
[a-z]*:0[0#]* to host: | 4,194,304 bytes
[a-z]*:0[0#]* to host: | 4 bytes
ROWS
verdict "the ledger's bytes: a matrix to a device and to the host, and a sum"
gradient='gradient by W: \[\[1., 0.\], \[2., 0.\], \[3., 0.\]\] on'
has "step 1: the arena gave \([0-9]*\) bytes loss 6 $gradient [a-z0-9:#]* step 2: the arena gave \1 bytes.* loss 4.6 $gradient"
verdict "the tape's gradient, the update, and the arena's memory once more"
png_size plots/$name.png "1900 1052" # two lanes four times
verdict "the picture"

works --devices 1
log_rows <<'ROWS'
[a-z]*:0[0#]* to [a-z]*:0[0#]*: | 0 bytes
ROWS
verdict "--devices 1: a copy within a device crosses nothing"
works --devices 3 --backend cpu --machine none
lacks '[0-9] modelled'
verdict "--devices 3 --machine none: measured times only"
works --devices 8 --backend model --predict
lacks 'loss [0-9]' # no values
as_modelled 1.02 1.15 8
verdict "--backend model: on 8 devices side by side takes a little longer, as question 4 says"
cp log first
works --devices 8 --backend model
cmp log first >>problems
verdict "modelled times are the same in every run; --predict is silent without a terminal"
"$program" --machine print:p100-25gbe | sed 's/^memory  .*/memory 0.05 GB/' >small.machine # enough, if it is used anew in each step
works --devices 8 --machine ./small.machine --backend model
as_modelled 1 1.15 8
verdict "another machine, of little memory"
refusals <<'ROWS'
2 | --devices 0; --devices 9 --machine d2l-pcie; --epochs 1
1 no machine | --backend model --machine none
2 two outputs | --backend model --timeline plots/00_devices_and_queues.png
ROWS
echo "1..$tests"
