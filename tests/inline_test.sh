#!/bin/sh
# inline_test.sh BUILD: what several devices compute, count and record they do with --backend inline, too. Prints TAP. (Not
# in the list: test_queues, as it holds a queue up until the host has done something more.)
. "$(dirname "$0")/tap.sh"
shown=$work/shown
for name in allreduce data ddp_reference device many_machines modelled_clock modelled_steps nn process_group reference resnet18 servers splitting trace trainers vit zero zero_reference zero_resume; do
    TEST_INLINE=1 "$build/tests/test_$name" >"$shown" 2>&1
    verdict $? "test_$name"
done
echo "1..$tests"
