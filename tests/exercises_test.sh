#!/bin/sh
# exercises_test.sh BUILD: every exercise's solution passes the check of its exercise, and its starter (the
# same file without the solution) is rejected by that check, with a message. Prints TAP.
build=$1
here=$(dirname "$0")
starter_sh=$here/../.make/starter.sh
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
tests=0
verdict() { # STATUS NAME
    tests=$((tests + 1))
    [ "$1" -eq 0 ] && echo "ok $tests - $2" && return
    echo "not ok $tests - $2"
    sed 's/^/# /' "$out/log" "$out/error"
}
check() { # PROGRAM
    "$1" --check --out "$out/plots" >"$out/log" 2>"$out/error" </dev/null
}

for source in "$here"/../chapters/*/exercises/[0-9]*.c; do
    title=$(basename "$source" .c)
    chapter=$(basename "$(dirname "$(dirname "$source")")")
    starter=$build/exercises/$chapter/$title
    name="$chapter, $title"

    check "$build/${chapter}_exercise_${title%%_*}" && grep -q '^check passed: ' "$out/log"
    verdict $? "$name: the solution passes"
    check "$starter"
    status=$?
    [ $status -eq 1 ] && ! grep -q 'check passed' "$out/log" && grep -q 'check failed: ' "$out/error" &&
        grep -q '^hint: ' "$out/error"
    verdict $? "$name: the starter fails, with status 1 and a message"
    grep -q '// YOUR CODE HERE' "$starter.c" && ! grep -q 'SOLUTION' "$starter.c"
    verdict $? "$name: the starter has a gap, and no solution"
    [ ! -e "$out/plots" ]
    verdict $? "$name: --check writes no file"
done

# starter.sh itself
: >"$out/log"
refused() { # TEXT NAME
    printf '%s' "$1" >"$out/file.c"
    ! sh "$starter_sh" "$out/file.c" >"$out/log" 2>"$out/error" && [ -s "$out/error" ]
    verdict $? "starter.sh refuses $2"
}
printf '    // SOLUTION (starter: return (f(0));)\n    secret\n    // END SOLUTION\nrest\n' >"$out/file.c"
sh "$starter_sh" "$out/file.c" >"$out/log" 2>"$out/error"
printf '    // YOUR CODE HERE\n    return (f(0));\nrest\n' | cmp -s - "$out/log"
verdict $? "starter.sh cuts the solution out and puts in what makes it compile"
printf 'int x;\n' >"$out/file.c"
sh "$starter_sh" "$out/file.c" >"$out/log" 2>"$out/error" && cmp -s "$out/file.c" "$out/log"
verdict $? "starter.sh leaves a file without a solution as it is"
refused '// SOLUTION
secret
' "a SOLUTION without an end"
refused 'a
// END SOLUTION
' "an end without a SOLUTION"
refused '// SOLUTION
// SOLUTION
// END SOLUTION
' "a SOLUTION inside a SOLUTION"
echo "1..$tests"
