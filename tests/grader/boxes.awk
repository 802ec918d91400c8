# boxes.awk CHAPTER/lab.md CHAPTER/lab_answers.md: the numbers that a sheet asks for, a row "LABEL UNIT TOLERANCE COMMAND CELL"
# with tabs for each. On the sheet, in a line below its question, and with the tolerance if that is not 2 %:
#
#     - `the star, 64 MiB, ms (within 5 %): ____`
#
# and among the answers where the number comes from; CELL is one of cells.awk, also A / B, also with x1000 at the end:
#
#     <!-- box: the star, 64 MiB, ms = run-02 --machine MACHINE --devices 4: seconds[algorithm=star] x1000 -->
#
# MACHINE is the student's machine file, DEVICES its number of devices. In the kit there is no lab_answers.md.
function fail(error) { print FILENAME ": error: " error "\nhint: tests/grader/boxes.awk says what a box is" >"/dev/stderr"; exit status = 1 }
FNR == NR {
    if (!match($0, /^ *(- )?`[^`]*: ____`$/)) next
    sub(/^ *(- )?`/, ""); sub(/: ____`$/, "")
    tolerance = 2
    if (match($0, / \(within [0-9.]+ %\)$/)) { tolerance = substr($0, RSTART + 9, RLENGTH - 12); $0 = substr($0, 1, RSTART - 1) }
    if ($0 in within) fail("two boxes: " $0)
    label[++n] = $0; within[$0] = tolerance
    next
}
{ sub(/^ +/, ""); text = text $0 " " }
END {
    if (status) exit status
    for (; match(text, /<!-- box: [^>]* -->/); text = substr(text, RSTART + RLENGTH)) {
        mark = substr(text, RSTART + 10, RLENGTH - 14)
        equals = index(mark, " = ")
        its = substr(mark, 1, equals - 1); mark = substr(mark, equals + 3)
        colon = index(mark, ": ")
        if (!equals || !colon || !(its in within)) fail("no box of the sheet: " its)
        command[its] = substr(mark, 1, colon - 1); cell[its] = substr(mark, colon + 2)
    }
    for (i = 1; i <= n; i++) {
        its = label[i]
        if (!(its in cell)) fail("nothing says where it comes from: " its)
        unit = match(its, /, [^ ,]+$/) ? substr(its, RSTART + 2) : ""
        print its "\t" unit "\t" within[its] "\t" command[its] "\t" cell[its]
    }
}
