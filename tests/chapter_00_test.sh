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
        /^  modelled on / { if ($NF != alone) not_so("other times in the other table") }
        /^  device 0 alone / { alone = $NF }
        /^  (both|all) devices, side by side / { enqueued = $(NF - 1); t = $NF / alone
            if (!(t >= '"$1"' && t < '"$2"')) not_so("side by side " t)
            if (!(enqueued < $NF)) not_so("enqueued") }
        /^  (both|all) devices, one after the other / { n++; t = $NF / alone / '"$3"'
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
figures log '/^  copies after the products / { after = $NF } /^  copies meanwhile / { meanwhile = $NF }
    /^  device 0 alone / { alone = $NF } /^  device 0 to host / && !copy { copy = $NF }
    END { if (!(after / (alone + 4 * copy) < 1.02 && meanwhile / (alone + copy) < 1.02 && alone + copy < 1.02 * meanwhile)) print after, meanwhile }'
verdict "three of four copies take no time, because the next product is computed meanwhile"
png_size plots/$name.png "1900 724" # five lanes in three timelines
is_svg plots/$name.svg 'compute mm 4 (gemm) on'
is_svg plots/${name}_copies.svg 'copy 4'
! grep -q forward plots/$name.svg || complain "products are forward"
for done in $(sed -n 's/^  \(device 0 alone\|both devices, .*\)  .* //p' log); do
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
lacks 'asked at once' # no values
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
