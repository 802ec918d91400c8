#!/bin/sh
# chapter_06_test.sh BUILD: chapter 6 runs with what a reader gives it, its checks pass, and it prints what its text and
# its questions speak of. Prints TAP.
name=06_data_parallel_and_ddp
. "$(dirname "$0")/chapter.sh"
run() { run_program --out "$out" "$@"; }
has_all() { # each of these lines
    for line; do grep -q -e "$line" "$out/log" || return 1; done
}
pictures() {
    for picture in modelled measured buckets; do is_png "$out/plots/${name}_$picture.png" || return 1; done
    is_svg "$out/plots/${name}_modelled.svg" 'communication'
}

main_run --train-size 1024 --test-size 500 --epochs 1
verdict $? "ends without an error"
[ ! -s "$out/error" ] && ! grep -q 'nan\|inf ' "$out/log"
verdict $? "says nothing on stderr, and prints no NaN"
pictures
verdict $? "three pictures"
[ "$(tail -c 2 "$out/plots/${name}_modelled.json" | head -c 1)" = '}' ] && grep -q 'exchange bucket 0' "$out/plots/${name}_modelled.json"
verdict $? "a trace for Perfetto"

# P = 516272 bytes of LeNet: DP's device 0 sends (k-1) P, a rank of a ring 2 (k-1)/k P.
has_all '^  replicate  *516,272 ' '^  replicate  *1,548,816 ' '^  replicate  *3,613,904 ' '^  gradients  *516,272 ' '^  gradients  *774,408 ' '^  gradients  *903,472 '
verdict $? "bytes on 2, 4 and 8 devices"
awk '/10,000 classes/ { many = 1 } many && / 8  DP  / { dp = $6 } many && / 8  DP, loss/ { loss = $9 } many && / 8  DDP  / { ddp = $6 }
     END { exit !(dp > 2 && loss < dp && loss > 1 && ddp == 1) }' "$out/log"
verdict $? "10,000 classes: device 0 of DP needs more than twice as much, of DDP as much as the others"
[ "$(grep -c '0 (bits)' "$out/log")" -ge 6 ] && awk '/largest difference/ { table = 1; next } table && NF == 0 { exit } table { rows++ } END { exit rows != 7 }' "$out/log"
verdict $? "seven ways agree with one device, most of them to the bit"

ms() { awk -v row="$1" '/^  ResNet-18  *buckets/ { table = 1 } table && index($0, "  " row) == 1 { gsub("[*]", ""); print $(NF - 1); exit }' "$out/log"; }
one=$(ms 'one bucket') best=$(ms '10 MiB') none=$(ms 'none')
awk -v one="$one" -v best="$best" -v none="$none" 'BEGIN { exit !(none < best && best < 0.85 * one) }'
verdict $? "ResNet-18 on PCIe: buckets of 10 MiB beat one bucket ($one ms) and cost something ($best ms, $none ms without)"
saved=$(tr -d '\n' <"$out/log" | sed -n 's/.*  LeNet on rtx4090-pcie\.[^%]*Against one bucket \([0-9.]*\) %.*  LeNet on dgx.*/\1/p')
awk -v saved="${saved:-100}" 'BEGIN { exit !(saved < 10) }' && grep -q 'Published: 38.0 %' "$out/log"
verdict $? "LeNet gains little by buckets ($saved %)"

[ "$(grep -c '^   -> ' "$out/log")" -eq 6 ] && [ "$(grep -c '^   -> false' "$out/log")" -eq 3 ] &&
    [ "$(grep -c '^   -> half' "$out/log")" -eq 2 ] && [ "$(grep -c '^   -> true' "$out/log")" -eq 1 ]
verdict $? "the six claims: three false, two half true, one true"
has_all 'bucket 0 of rank 1 is sent before the gradient of' 'rank 0 is at bucket 0, rank 1 at bucket 1' \
    'the parameter 3.weight got no gradient on rank 0' '100.0 % of the places' '0.500 times' '21 and 12 where 11 and 22'
verdict $? "the five mistakes are noticed"
awk '/^  (padded|dropped|exact)  *[0-9]+ images/ { images[$1] = $2 } END { n = images["exact"]
    exit !(n % 3 && images["dropped"] == n - n % 3 && images["padded"] == n - n % 3 + 3) }' "$out/log" # 3 ranks
verdict $? "padded, dropped and exact test sets"
too_large() { sed -n '/eight fully connected/,$p' "$out/log"; }
[ "$(too_large | grep -c 'out of memory on model:0: 33,587,200 bytes for tensors, and of its 64,000,000 bytes 33,587,200 are in use: 33,587,200 for tensors')" -eq 2 ] && [ "$(grep -c '    it runs: ' "$out/log")" -eq 2 ]
verdict $? "a network that is too large: both wrappers are refused, both splits run"

model() { run --backend model --train-size 300 --test-size 100 "$@"; }
model && cp "$out/log" "$out/first" && model && cmp -s "$out/log" "$out/first" && ! grep -q 'measured here' "$out/log"
verdict $? "--backend model: the same in every run"
model --memory 200 && ! too_large | grep -q 'out of memory' && [ "$(grep -c '    it runs: ' "$out/log")" -eq 4 ]
verdict $? "--memory 200: all fit"
model --memory 20 && [ "$(too_large | grep -c 'out of memory')" -eq 4 ]
verdict $? "--memory 20: none fits"
for flags in '--devices 2' '--devices 3 --allreduce star' '--devices 8 --machine dgx-a100' '--devices 16 --machine p100-25gbe --batch-size 33' '--machine d2l-pcie' '--machine laptops-1gbe'; do
    # shellcheck disable=SC2086
    model $flags
    verdict $? "$flags"
done
run --machine none --train-size 300 --test-size 100 --batch-size 31 --epochs 1 && ! grep -q 'odelled on\|nan' "$out/log"
verdict $? "--machine none: bytes and values, no modelled time"
for wrong in '--devices 1' '--machine colab-t4' '--devices 65 --machine p100-25gbe' '--devices 9 --machine rtx4090-pcie' '--memory 0' '--memory x' '--allreduce line' '--steps 3' '--machine none --backend model'; do
    # shellcheck disable=SC2086
    run $wrong
    status=$?
    [ $status -ne 0 ] && [ ! -s "$out/log" ] && grep -q 'error: ' "$out/error" && grep -q 'hint: ' "$out/error"
    verdict $? "$wrong is refused"
done
run --backend model --predict --train-size 300 --test-size 100 && cp "$out/log" "$out/second" && model && cmp -s "$out/log" "$out/second"
verdict $? "--predict is silent without a terminal"
echo "1..$tests"
