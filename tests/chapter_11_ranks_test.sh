#!/bin/sh
# chapter_11_ranks_test.sh BUILD: chapter 11's mesh over ranks: the bits of one device on all of them, the bytes of the
# formulas, and what is refused. Prints TAP.
name=11_a_mesh_of_devices
. "$(dirname "$0")/chapter.sh"
. "$root/tests/chapter_08_ranks.sh"
has_mpi || skip_all "a mesh over ranks" "no MPI"

# 16 images of 16 * 64 numbers, of which each network has its part; 16 sums in a tree, in which rank 0 sends to 1 of 2, or 2
# of 4; and so it does with the gradients of its part of 204,938 parameters.
while read -r mesh row; do
    ranks $((${mesh%x*} * ${mesh#*x})) --mesh "$mesh" --batch-size 16
    good
    echo "${mesh%x*} x ${mesh#*x} ranks | * 0 $row" | log_rows
    figures log '/^  1 device / { one = $3 } / ranks  / { n++; if ($4 != "ranks" || $5 != one || !(one > 1)) print } END { if (n != 1) print n, "rows" }'
    verdict "$mesh ranks: the bits of one device, and the bytes of the formulas"
done <<'ROWS'
2x2 0.52 0.52 0.42 0.42
1x4 2.10 2.10 0.00 0.00
4x1 0.00 0.00 1.64 1.64
2x1 0.00 0.00 0.82 0.82
ROWS
while IFS='|' read -r k text flags; do
    ranks "$k" $flags
    [ $status -eq 2 ] && [ ! -s log ] || complain "status $status, or it began all the same"
    failed_with "$text" 1
    verdict "refused, and said once: $k ranks, $flags"
done <<'ROWS'
3|3 ranks, but --mesh 2x2|--mesh 2x2
2|2 ranks, but no --mesh|--steps 2
4|4 ranks|--mesh 2x2 --sequence
ROWS
echo "1..$tests"
