#!/bin/sh
# starter.sh FILE: an exercise without its solution, on stdout. In FILE
#     // SOLUTION (starter: return 0;)
#     ...
#     // END SOLUTION
# becomes "// YOUR CODE HERE" and what stands after "starter:", which only makes it compile. Without
# "(starter: ...)" nothing else stands there. Markers that do not match are an error; a file without
# any is a starter already.
exec awk '
function refuse(what) {
    print "starter.sh: error: " FILENAME ":" FNR ": " what >"/dev/stderr"
    print "hint: each // SOLUTION needs one // END SOLUTION behind it" >"/dev/stderr"
    refused = 1
    exit 1
}
/^ *\/\/ SOLUTION/ {
    if (inside) refuse("a SOLUTION inside a SOLUTION")
    inside = 1
    indent = $0; sub(/\/\/.*/, "", indent)
    print indent "// YOUR CODE HERE"
    if (sub(/^.*\(starter: /, "") && sub(/\) *$/, "")) print indent $0
    next
}
/^ *\/\/ END SOLUTION/ {
    if (!inside) refuse("END SOLUTION without SOLUTION")
    inside = 0
    next
}
!inside
END { if (inside && !refused) refuse("no END SOLUTION") }' "$1"
