#!/bin/sh
# draw.sh ID: a machine of one's own for the student with this ID, always the same: a DGX A100's file, in which the number of
# GPUs, how fast they are, what a launch costs, and the links are drawn. A file says that of all machines: common/model/machine.h.
# Within these bounds what the labs show holds on each (tests/test_drawn_machines.c, of 1,000).
set -eu
hash=$(printf 'training on multiple GPUs: %s' "$1" | sha256sum | cut -d ' ' -f 1)
id=$1 awk -v hash="$hash" '
    # A number from 0 to 1 of six digits of the hash (it has 64): the first six, the next ..
    function part(    i, x) {
        for (i = 1; i <= 6; i++) x = 16 * x + index("0123456789abcdef", substr(hash, 6 * used + i, 1)) - 1
        used++
        return x / 16777216
    }
    function number(x) { return sprintf("%.3g", x) }
    function drawn(least, most) { return number(least * exp(log(most / least) * part())) } # as likely twice as half as much
    BEGIN {
        is["about"] = "drawn for " ENVIRON["id"] ": GPUs on an NVLink switch, each with a network card"
        is["devices"] = 4 + int(5 * part()) # 4 to 8
        is["fp32"] = drawn(12, 24) " TFLOP/s"
        is["memory_bandwidth"] = drawn(900, 2000) " GB/s"
        is["launch"] = drawn(1.5, 5) " us"
        is["link"] = "switch " drawn(60, 280) " GB/s " drawn(2.5, 8) " us"
        host = drawn(10, 25)
        is["host_link"] = host " GB/s " drawn(4, 9) " us"
        is["root_bandwidth"] = host " GB/s"
        is["devices_per_root"] = 2
        is["cards"] = is["devices"]
        is["network"] = drawn(3, 20) " GB/s " drawn(10, 30) " us"
    }
    /^#/ { next }
    { sub(/ *#.*/, "") }
    NF { printf "%-17s %s\n", $1, $1 in is ? is[$1] : substr($0, 19) }' common/model/machines/dgx-a100.machine
