#!/bin/sh
# chapter_01_test.sh BUILD: the numbers of chapter 1: bytes, memory, times and bubbles, and its pictures. (Who trains
# like whom: test_splitting.c.) Prints TAP.
name=01_splitting_strategies
. "$(dirname "$0")/chapter.sh"
small_data_set
csv=plots/${name}_model.csv

works --batch-size 32
figures log 'length > 100'
verdict "ends well; no line is longer than a page is wide"
figures log '/^  (across|within) (data|layers) +(exact|[0-9])/ && NF == 5 { n++; for (i = 3; i <= 5; i++) if (!($i == "exact" || $i < 1e-5)) print }
    END { if (n != 3) print n, "rows" }'
verdict "three ways on 1, 2 and 4 devices give what one device gives"
# Of LeNet: parameters, activations, moved, busiest link, syncs, busiest. (The bytes are those of the formulas, for each
# minibatch, or the program ends; test_splitting.c and the lines below say what the formulas are.)
log_rows <<'ROWS'
one device | 1.03 8.65..8.75 0.00 0.00 0 100
across data | 1.03 2.65..2.7 3.10 1.55 1 25
across layers | 0.82 * 1.10 0.53..0.54 24 90
within layers | 0.26 * 3.31 0.83 7 26
AlexNet across data | 489 208 697 3422 1 12.5
ResNet-18 across layers | * * * 1490 224 19.3
largest | 79% 90% 78% 77%
ROWS
# Idle shares: of equal layers close to the formula, of AlexNet more.
figures log '/^ +microbatches/ { bubbles = NR } bubbles && NR > bubbles && NR <= bubbles + 4 { n++; if (!($2 == sprintf("%.1f", 300 / ($1 + 3)) && $3 >= $2 && $3 <= $2 + 3 && $4 >= $3)) print }
    END { if (n != 4) print n, "rows" }'
verdict "what a step holds and moves, and bubbles"
for picture in timeline bubble; do
    is_png plots/${name}_$picture.png
    is_svg plots/${name}_$picture.svg "<title>forward 1 (.*) on .*[:#]1, [0-9.]* ms to [0-9.]* ms</title>"
done
! command -v gnuplot >/dev/null || is_png plots/${name}_model.png
verdict "the pictures; bars say what they are"
# AlexNet fits each of three machines: pipelines of 1, 2, 4, 8 devices, up to 32 within layers, 128 across data by a star and
# by a ring. A pipeline of ResNet-18 can have 10 stages, too; and one laptop has too little memory for it.
figures $csv '{ n[$1]++; n[$1, $2]++; all[$1, $2, $3, $4] = $5 }
    END { if (n["AlexNet"] != 3 * (4 + 6 + 8 + 8) || n["ResNet-18", "dgx-a100"] != 5 + 6 + 8 + 8) print n["AlexNet"], n["ResNet-18", "dgx-a100"]
        if (!all["ResNet-18", "dgx-a100", "across layers", 10] || all["ResNet-18", "laptops-1gbe", "across data", 1]) print "machines" }'
# What the text says: with the star, a pipeline of AlexNet is fastest on slow links; with the ring, on laptops alone (and nearly as fast on P100s).
figures $csv 'NR > 1 { key = $1 " " $2; if (!((key, $3) in best) || $5 < best[key, $3]) best[key, $3] = $5; keys[key] = 1 }
    END { for (key in keys) {
            star = best[key, "across data"]; ring = best[key, "across data (ring)"]; pipeline = best[key, "across layers"]
            if ((pipeline < 0.9 * ring) != (key == "AlexNet laptops-1gbe") || ring > star) print key, star, ring, pipeline
            if (key ~ /^AlexNet (p100|laptops)/ && !(pipeline < star)) print key, star, pipeline } }'
verdict "the modelled figures, and what follows from them"

# Modelled time is the same without values, of which nothing is said.
modelled() { sed -n '/LeNet, k = 4/,$s/^  //p' "$1" | sed '/^largest/d'; }
modelled log >with_values
cp $csv with_values.csv
works --batch-size 32 --backend model
lacks 'difference from'
[ -s with_values ] && modelled log | cmp - with_values >>problems && cmp $csv with_values.csv >>problems
verdict "--backend model: no values, the same modelled times"
# The figure to move: a pipeline as a picture, unless there are more devices than pieces.
for network in lenet alexnet resnet-18 equal; do
    rm -rf plots
    works --backend model --pipeline $network --devices 4 --microbatches 16
    figures plots/${name}_pipeline.csv '$2 == "across layers" && !($5 > 0 && $6 >= $7 - 0.001 && $7 == "0.157894737") || NR > 1 && !($5 > 0) { print }
        END { if (NR != 5) print NR, "rows" }'
    is_svg plots/${name}_pipeline.svg "<title>forward 1 .* on .*[:#]3, [0-9.]* ms to [0-9.]* ms</title>"
done
step() { works --backend model --pipeline alexnet --devices 4 --microbatches "$1" && awk -F , '$2 == "across layers" { print $5, $6 }' plots/${name}_pipeline.csv; }
{ step 4; step 8; } | awk 'NR == 1 { time = $1; idle = $2 } END { exit !(time < $1 && idle > $2) }' || complain "AlexNet with 4 and 8 microbatches"
rm -rf plots
works --backend model --pipeline lenet --devices 5
[ ! -e plots/${name}_pipeline.svg ] || complain "a picture of no pipeline"
figures plots/${name}_pipeline.csv '$2 == "across layers" && $5 != "nan" { print }'
verdict "--pipeline"

# Other numbers of devices and small minibatches; no machine, a learning rate that is too large.
while read -r flags; do
    rm -rf plots
    run --out plots --backend cpu $flags
    case $flags in
    *1e10) refused 1 '' && grep -q '^hint: .*smaller --lr' error || complain "no hint about --lr" ;;
    *) good ;;
    esac
    case $flags in
    *none) lacks '% a step, ms one' 'formula' ;;
    *'--devices 16'*) lacks 'formula' ;;
    *) ;;
    esac
    verdict "$flags"
done <<'FLAGS'
--batch-size 5 --devices 2 --machine none
--batch-size 5 --devices 1 --seed 1 --threads 2
--batch-size 5 --devices 7 --seed 7 --threads 2
--batch-size 1 --microbatches 3
--batch-size 5 --devices 16
--batch-size 5 --lr 1e10
FLAGS
refusals <<'ROWS'
2 vgg | --pipeline vgg
2 modelled | --pipeline lenet --machine none
ROWS
echo "1..$tests"
