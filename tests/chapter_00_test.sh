#!/bin/sh
# chapter_00_test.sh BUILD: chapter 0's numbers, those that its questions ask about: modelled times, bytes, gradients.
# Prints TAP.
name=00_devices_and_queues
. "$(dirname "$0")/chapter.sh"

# Modelled: side by side takes LOW to HIGH times as long as device 0 alone, one after the other about K times; and the
# host, which enqueues both ways as fast, is done before the devices are. Device 0 needs the same time in both tables.
as_modelled() { # LOW HIGH K
    figures log 'function not_so(what) { print what ": " $0 }
        /^  measured on this computer / { if (!($(NF - 1) < $NF)) not_so("measured") }
        /^  modelled on / { once = $NF }
        /^  device 0 alone / { alone = $NF; if (alone != once) not_so("other times in the other table") }
        /^  all, side by side / { enqueued = $(NF - 1); t = $NF / alone
            if (!(t >= '"$1"' && t < '"$2"')) not_so("side by side " t)
            if (!(enqueued < $NF)) not_so("enqueued") }
        /^  all, one after the other / { n++; t = $NF / alone / '"$3"'
            if (!(t > 0.95 && t < 1.05 && $(NF - 1) < 1.1 * enqueued)) not_so("one after the other") }
        END { if (n != 1 || !(enqueued > 0)) print n " tables" }'
}
main_run
good
figures log 'length > 100'
[ "$(wc -l <log)" -le 40 ] || complain "$(wc -l <log) lines"
has 'asked at once: [yn].* asked after synchronize(): yes' # (a busy host may be late itself)
verdict "ends well; no line is too long for a page, and there are few"
as_modelled 1 1.1 2
verdict "modelled: two devices take as long as one side by side, and twice as long one after the other"
log_rows <<'ROWS'
device 0 to device 1 | 4,194,304 *
device 0 to host | 4,194,304 *
device 0 to host | 4 *
ROWS
verdict "the ledger's bytes: a matrix to a device and to the host, and a sum"
gradient='gradient of W: \[\[1., 0.\], \[2., 0.\]\] on'
has "step 1: loss 3, \([0-9]*\) bytes of the arena $gradient [a-z0-9:#]* step 2: loss 2.5, \1 bytes of the arena, h in the same place $gradient"
verdict "the tape's gradient, the update, and the arena's memory once more"
png_size plots/$name.png "1900 724" # five lanes in three timelines
is_svg plots/$name.svg 'compute mm 4 (gemm) on'
! grep -q forward plots/$name.svg || complain "products are forward"
for done in $(sed -n 's/^  \(device 0 alone\|all, .*\)  .* //p' log); do
    grep -q ": $done ms<" plots/$name.svg || complain "no $done ms in the picture"
done
verdict "the picture, with the times of the table"

works --devices 1
log_rows <<'ROWS'
device 0 to device 0 | 0 *
ROWS
verdict "--devices 1: a copy within a device crosses nothing"
works --devices 3 --backend cpu --machine none
lacks modelled
has 'device 0 alone' 'to host 4 '
is_svg plots/$name.svg 'compute mm 4'
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
