#!/bin/sh
# readme_test.sh BUILD: README.md is short, and what it shows is what there is: the code of a step, links, figures of
# benchmarks, and lines of the run that the book is made of (BUILD/runs; digits of the measured time aside). Prints TAP.
. "$(dirname "$0")/tap.sh"
cd "$root" || exit 1
bench=tests/bench/README.md
expect_lines() { # WANTED IN: each line of the one file is a line of the other
    [ -s "$1" ] || complain "no line to look for in $2"
    grep -Fxv -f "$2" "$1" | sed "s|^|# not in $2: |" >>"$problems"
}

[ "$(wc -l <README.md)" -le 150 ] && [ "$(wc -w <README.md)" -le 1300 ] || complain "$(wc -lw README.md)"
verdict "at most 150 lines and 1300 words"
sh tests/links.sh . >>"$problems"
verdict "links of all texts lead somewhere"
for file in README.md chapters/04_lenet_multi_gpu/lenet.c; do
    sed -n '/^void train_batch(/,/^}/p' $file >"$work/$(basename $file)"
done
[ -s "$work/lenet.c" ] && diff "$work/lenet.c" "$work/README.md" >>"$problems" || complain "train_batch() differs"
verdict "train_batch() is that of lenet.c"

# ---- benchmarks ------------------------------------------------------------------------------------

# Of each row "| LeNet .. | 10.3 ms | 80 ms | 47 ms .. |", the three are in the CSV, for that network and that side.
for csv in cpu gpu; do # commas in quotes are none
    awk -F '"' -v OFS='' '{ for (i = 2; i <= NF; i += 2) gsub(/,/, "", $i); print "'$csv'," $0 }' tests/bench/results/$csv.csv
done >"$work/csv"
for file in README.md $bench; do
    awk -F '|' -v csv="$work/csv" '
        BEGIN { while ((getline line <csv) > 0) { split(line, f, ","); side = f[13] == "ours" ? 2 : f[14] == "as in the book" ? 3 : 4
                    if (f[13] !~ /^(ours|PyTorch|PyTorch best)$/) continue
                    ms[f[1], f[10], f[12], side] = ms[f[1], f[10], f[12], side] " " f[15] } }
        /gpu\.csv/ { where = "gpu" }
        /^\| (LeNet|ResNet-18),.* ms/ {
            network = /epoch/ ? "epoch" : /LeNet/ ? "lenet" : "resnet"
            key = (where == "gpu" || /H100/ ? "gpu" : "cpu") SUBSEP network SUBSEP (/TF32/ ? 1 : 0)
            for (side = 2; side <= 4; side++) {
                value = $(side + 1); sub(/ ms.*/, "", value); gsub(/ /, "", value)
                digits = index(value, ".") ? length(value) - index(value, ".") : 0
                n = split(ms[key, side], all, " "); found = 0
                for (i = 1; i <= n; i++) if (sprintf("%.*f", digits, all[i]) == value) found = 1
                if (!found) print "# " FILENAME ": " value " ms is not in the CSV:" $0
                rows++
            }
        }
        END { if (rows < 9) print "# " FILENAME ": " rows + 0 " figures, not three rows or more" }' $file >>"$problems"
done
verdict "milliseconds are those of the CSV"
sed -n '/^| error/,/^$/p' README.md >"$work/errors"
expect_lines "$work/errors" chapters/how_true.md
verdict "errors of modelled times are those of the page"
for ms in 2.192 0.473 0.445 0.347; do # chapter 4's on an H100
    grep -q " $ms ms " chapters/04_lenet_multi_gpu/main.c &&
        grep -q "^| *$ms |.*| LeNet, 256 images, float32, dgx-h100; " chapters/how_true.md || complain "$ms ms"
done
grep -q '^| *0.347 |.*|  1.04 |' chapters/how_true.md && grep -q '^| *0.445 |.*|  1.05 |' chapters/how_true.md || complain "4 and 5 %"
verdict "milliseconds of chapter 4 are those of the page"
# Chapter 5's, on RTX 4090: each published figure, and the modelled one, with a digit after the point.
{
    awk -F, '$2 == "rtx4090-pcie" && / 64x64".*PyTorch DDP, with loading/ { printf "%.1f\n%.1f\n", $11, $14 }' tests/published/scaling.csv
    awk -F '|' '/ResNet-18, 64x64, .*PyTorch DDP, with loading/ { printf "%.1f\n", $3 }' chapters/how_true.md
} | sort -u >"$work/ms"
[ "$(wc -l <"$work/ms")" -eq 10 ] || complain "not 10 figures: $(paste -sd ' ' "$work/ms")"
while read -r ms; do
    grep -q "^// | .* $ms " chapters/05_resnet18_concise/main.c || complain "chapter 5 lacks $ms"
done <"$work/ms"
verdict "milliseconds of chapter 5 are those of the page"

# ---- runs ------------------------------------------------------------------------------------------

run=$build/runs/04_lenet_multi_gpu/stdout
if ! [ -e "$run" ] || grep -q '\[cuda:0' "$run"; then
    skip "lines of the run" "there is none on CPU devices"
else
    sed -n '/^training on/,/^```/p' README.md | grep -v '^```\|^  \.\.\.$' >"$work/sample"
    shape() { sed 's/[0-9][0-9.]*[0-9]/N/g; s/  */ /g' "$1"; }
    shape "$work/sample" >"$work/wanted"
    shape "$run" >"$work/came"
    expect_lines "$work/wanted" "$work/came"
    for file in "$work/sample" "$run"; do # modelled times do not depend on the computer
        sed -n 's/^test acc: .*; modelled //p' "$file" | tr '\n' ' '
        echo
    done | uniq | awk 'END { if (NR != 1) print "# other modelled times: " $0 }' >>"$problems"
    # Accuracies depend on how its CPU and compiler round: README.md says how much.
    seen=$(tr '\n' ' ' <README.md | sed -n 's/.*we have seen \(0\.[0-9]*\) to \(0\.[0-9]*\)\..*/\1 \2/p')
    for file in "$work/sample" "$run"; do
        sed -n 's/^Accuracy: \([0-9.]*\) on 1 device, \([0-9.]*\) on 2.*/\1 \2/p' "$file" |
            awk -v seen="$seen" 'BEGIN { split(seen, limit) } $1 >= limit[1] - 0.005 && $1 < limit[2] + 0.005 && $1 == $2 { ok = 1 } END { exit !ok }' ||
            complain "accuracy: $seen in README.md, $(grep ^Accuracy: "$file") in $file"
    done
    verdict "lines of the run"
fi
echo "1..$tests"
