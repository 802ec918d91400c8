#!/bin/sh
# chapter_01_test.sh BUILD: chapter 1 runs, its own checks pass, and it draws its pictures. (Other numbers
# of devices and flags: chapter_01_flags_test.sh.) Prints TAP.
name=01_splitting_strategies
. "$(dirname "$0")/chapter.sh"
small_data_set
run() { run_program --data "$out/data" --out "$out/plots" "$@"; }
says_nothing_on_stderr() { ! grep -v 'no GPU' "$out/error" | grep -q .; }

run --batch-size 32 --steps 2
verdict $? "ends without an error"
command -v gnuplot >/dev/null && { says_nothing_on_stderr; verdict $? "says nothing on stderr"; }
# A row for each of 2 and 4 devices; the last four columns: counted, formula, formula for twice the images, syncs.
# Across data the images do not matter.
sed -n '/^  strategy .* counted /,/^$/p' "$out/log" | sed '1d;$d' |
    awk '{ gsub(",", ""); rows++; if ($(NF - 3) != $(NF - 2) || $(NF - 1) != (rows > 4 ? 1 : 2) * $(NF - 2)) bad++ } END { exit !(rows == 6 && !bad) }'
verdict $? "six rows, and the bytes that were counted are those of the formula"
# 2 (k-1) times the parameters, whatever the minibatch
grep -q '^  across data  *2 .* 1,032,544  *1,032,544  *1,032,544  *1$' "$out/log" && grep -q '^  across data  *4 .* 3,097,632  *3,097,632  *3,097,632  *1$' "$out/log"
verdict $? "across data: 2 (k-1) times the bytes of the parameters"
# Measured and modelled, with 1, 2 and 4 devices
sed -n '/^How long a step takes/,$p' "$out/log" | sed -n '4,6p' |
    awk '{ for (i = 3; i <= 8; i++) if ($i <= 0) bad++; rows += NF == 8 } END { exit !(rows == 3 && !bad) }'
verdict $? "both times of all nine steps"
[ "$(grep -c 'device.* the same loss, gradients and loss after one update, \(to [0-9]\|exactly\)' "$out/log")" -eq 9 ]
verdict $? "three ways on 1, 2 and 4 devices give what one device gives"
# On one device: all = outputs + gradients + gathered + the rest; in a pipeline of 4 microbatches a quarter of the gradients
awk '/^  On one device, MB/ { getline; pipeline = $5; sum = $4 + $5 + $6 + $7 - $3; getline; getline; data = $5; sum += $4 + $5 + $6 + $7 - $3 }
    END { exit !(pipeline > 0 && data - 4 * pipeline < 0.05 && 4 * pipeline - data < 0.05 && sum < 0.05 && sum > -0.05) }' "$out/log"
verdict $? "what the activations are made of"
grep -q '^  AlexNet  *1  one device  *489 ' "$out/log" && grep -q '^  ResNet-18  *1  one device  *94  *10,227  *10,321 ' "$out/log"
verdict $? "the larger networks"
# A line for each of 4 devices, three ways; a pipeline's first stage has the most activations.
[ "$(grep -c '^  [a-z]*:[0-9#]*  *[0-9.]*  *[0-9.]*  *\(all\|-\|0-4\|[0-9]*-[0-9]*\) ' "$out/log")" -eq 12 ] &&
    grep -q '^  [a-z]*:0[#0-9]*  *0.002  *5.29  *all  *-  *-  *-$' "$out/log"
verdict $? "what each device holds"
! sed "s|$out/[^ ]*||g" "$out/log" | grep -q '.\{101\}'
verdict $? "no line is longer than a page is wide"
for picture in timeline_2 timeline_4 bubble_measured bubble_modelled; do
    is_png "$out/plots/01_splitting_strategies_$picture.png"
    verdict $? "the picture $picture"
    is_svg "$out/plots/01_splitting_strategies_$picture.svg" "<title>forward 1 (.*) on .*[:#]1, [0-9.]* ms to [0-9.]* ms</title>"
    verdict $? "the picture $picture as SVG: its bars say what they are"
done
if command -v gnuplot >/dev/null; then
    is_png "$out/plots/01_splitting_strategies_model.png"
    verdict $? "the picture model"
else
    skip "the picture model" "no gnuplot"
fi
# AlexNet fits each machine: pipelines of 1, 2, 4, 8 devices, up to 32 within layers, 128 across data. A
# pipeline of ResNet-18 can have 10 stages, too; and one laptop has too little memory for it.
csv=$out/plots/01_splitting_strategies_model.csv
[ "$(grep -c '^AlexNet,' "$csv")" -eq $((3 * (4 + 6 + 8))) ] && [ "$(grep -c '^ResNet-18,dgx-a100,' "$csv")" -eq $((5 + 6 + 8)) ] &&
    grep -q '^ResNet-18,dgx-a100,across layers,10,' "$csv" && ! grep -q '^ResNet-18,laptops-1gbe,across data,1,' "$csv"
verdict $? "the modelled figures"
# A pipeline of equal stages is idle for (k-1)/(m+k-1) of the time, and for loading and sending: k, m, formula, with
# their times, as recorded
awk '/^eight wide layers  / { rows++; if ($7 + 0 < $6 - 0.1 || $8 + 0 < $7 || $8 > $6 + 5) bad++ } END { exit !(rows == 4 && !bad) }' "$out/log"
verdict $? "the modelled bubble is the formula's, and a little more"
cp "$out/log" "$out/log_with_values"
cp "$csv" "$out/csv_with_values"

# Modelled time is the same without values, of which nothing is said.
modelled() { # LOG
    sed -n '/^How long a step takes/,$p' "$1" | sed -n '4,6p' | awk '{ print $(NF - 2), $(NF - 1), $NF }'
    grep '^eight wide layers' "$1"
    sed -n '/^Larger networks/,/^Why split/p' "$1"
}
run --batch-size 32 --backend model && ! grep -q 'same loss\|measured here\|Measured here' "$out/log" && grep -q '^                  modelled, k=1' "$out/log"
verdict $? "--backend model: no values, nothing measured"
modelled "$out/log_with_values" >"$out/with"
modelled "$out/log" >"$out/without"
[ -s "$out/with" ] && cmp -s "$out/with" "$out/without" && cmp -s "$csv" "$out/csv_with_values"
verdict $? "--backend model: the same modelled times"

# One part alone.
run --batch-size 32 --part bubble --backend model && grep -q '^Modelled on .* pipeline' "$out/log" && ! grep -q 'Splitting\|^Larger' "$out/log"
verdict $? "--part bubble"
run --part all,none
[ $? -eq 2 ] && grep -q 'splitting|bubble|model' "$out/error"
verdict $? "--part with another word: the parts there are"
echo "1..$tests"
