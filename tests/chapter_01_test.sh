#!/bin/sh
# chapter_01_test.sh BUILD: the numbers of chapter 1: bytes, memory, times and bubbles, and its pictures. (Other numbers
# of devices and flags: chapter_01_flags_test.sh. Who trains like whom: test_splitting.c.) Prints TAP.
name=01_splitting_strategies
. "$(dirname "$0")/chapter.sh"
small_data_set
csv=plots/${name}_model.csv

works --batch-size 32 --steps 2
figures log 'length > 100'
verdict "ends well; no line is longer than a page is wide"
figures log '/device.*: +the same loss, gradients and loss after one update/ { n++; if (!($NF == "exactly" || $NF < 1e-5)) print }
    END { if (n != 9) print n, "rows" }'
verdict "three ways on 1, 2 and 4 devices give what one device gives"
# Across data: 2 (k-1) times the parameters, whatever the minibatch. In the others, twice as much for twice the images.
log_rows <<'ROWS'
across data | 2 1,032,544 1,032,544 1,032,544 1
across data | 4 3,097,632 3,097,632 3,097,632 1
AlexNet | 1 one device 489
ResNet-18 | 1 one device 94 10,227 10,321
[a-z]*:0[#0-9]* | 0.002 5.29 all - - -
ROWS
sed 's/\([0-9]\),/\1/g' log >plain # below: counted, by formula, for twice the images; on one device: all, and its parts
figures plain '/^  strategy .* counted / { bytes = 1 }
    bytes && / [24]  / { rows++; if ($(NF - 3) != $(NF - 2) || $(NF - 1) != ($2 == "data" ? 1 : 2) * $(NF - 2)) print }
    rows == 6 { bytes = 0 }
    /^How long a step takes/ { times = NR }
    times && NR >= times + 3 && NR < times + 6 { for (i = 3; i <= 8; i++) if (!($i > 0)) print }
    /^  On one device, MB/ { parts = NR }
    parts && NR > parts && NR < parts + 4 { gradients[$1 $2] = $5; d = $4 + $5 + $6 + $7 - $3; if (!(d * d < 0.0025)) print }
    / [a-z]*:[0-9#]*  *[0-9.]+  *[0-9.]+  *(all|-|[0-9]+-[0-9]+) / { held++ }
    /^eight wide layers  / { bubbles++; if (!($7 >= $6 - 0.1 && $8 >= $7 && $8 <= $6 + 5)) print } # idle as recorded, by formula
    END { d = gradients["acrossdata"] - 4 * gradients["acrosslayers"] # 4 microbatches
        if (!(gradients["acrosslayers"] > 0 && d * d < 0.0025)) print "gradients"
        if (rows != 6 || held != 12 || bubbles != 4 || !times) print rows, held, bubbles, times }'
verdict "bytes by the formula, times, what activations are made of, what each device holds, and bubbles"
for picture in timeline_2 timeline_4 bubble_measured bubble_modelled; do
    is_png plots/${name}_$picture.png
    is_svg plots/${name}_$picture.svg "<title>forward 1 (.*) on .*[:#]1, [0-9.]* ms to [0-9.]* ms</title>"
done
! command -v gnuplot >/dev/null || is_png plots/${name}_model.png
verdict "the pictures; bars say what they are"
# AlexNet fits each of three machines: pipelines of 1, 2, 4, 8 devices, up to 32 within layers, 128 across data. A pipeline
# of ResNet-18 can have 10 stages, too; and one laptop has too little memory for it.
figures $csv '{ n[$1]++; n[$1, $2]++; all[$1, $2, $3, $4] = $5 }
    END { if (n["AlexNet"] != 3 * (4 + 6 + 8) || n["ResNet-18", "dgx-a100"] != 5 + 6 + 8) print n["AlexNet"], n["ResNet-18", "dgx-a100"]
        if (!all["ResNet-18", "dgx-a100", "across layers", 10] || all["ResNet-18", "laptops-1gbe", "across data", 1]) print "machines" }'
verdict "the modelled figures"

# Modelled time is the same without values, of which nothing is said.
modelled() { # LOG
    sed -n '/^How long a step takes/,$p' "$1" | sed -n '4,6p' | awk '{ print $(NF - 2), $(NF - 1), $NF }'
    grep '^eight wide layers' "$1"
    sed -n '/^Larger networks/,/^Why split/p' "$1"
}
modelled log >with_values
cp $csv with_values.csv
works --batch-size 32 --backend model
lacks 'same loss' 'measured here'
modelled log | cmp - with_values >>problems && cmp $csv with_values.csv >>problems
verdict "--backend model: no values, the same modelled times"
works --batch-size 32 --part bubble --backend model
lacks 'Splitting across' 'Larger networks'
has '0% 75.0% 75.' 'eight wide layers: idle 75% with m = 1, [23][0-9]% with m = 8'
verdict "--part bubble"
refusals <<'ROWS'
2 none | --part all,none
ROWS
echo "1..$tests"
