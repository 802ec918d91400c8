#!/bin/sh
# numbers_test.sh BUILD: numbers of one's own: how an answer is read, with its unit; a neighbour's; a roster; every box of a
# sheet has a number, and another for each student; three students' hand-ins, graded. Prints TAP.
. "$(dirname "$0")/tap.sh"
cd "$root" || exit 1
ls chapters/*/lab_answers.md >/dev/null 2>&1 || skip_all "numbers of one's own" "students have no answers"

# ---- an answer -----------------------------------------------------------------------------------------

tr '|' '\t' >"$work/numbers" <<'END'
ada|02|the star, 64 MiB, ms|ms|2|25.31
ada|02|busiest link, MB|MB|2|67.1
ada|02|how many times||5|3.2
ada|02|sent, B|B|2|1548816
bea|02|the star, 64 MiB, ms|ms|2|35.31
bea|02|busiest link, MB|MB|2|57.1
bea|02|how many times||5|4.2
bea|02|sent, B|B|2|1548816
END
answered() { # LINE EXPECTED: POINTS, or words of the reason or of a note
    label=${1%%: *}
    printf '# Lab 02\r\n%s\r\n' "$1" >"$work/answers"
    awk -v who=ada -f tests/grader/answered.awk "$work/numbers" "$work/answers" | grep -F "$(echo "$label" | sed 's/ (within.*//; s/^> `//; s/`$//')" >"$work/row"
    case $2 in
    [01]) [ "$(tail -n 1 "$work/row" | cut -f 2)" = "$2" ] ;;
    *) grep -qF -- "$2" "$work/row" && grep -q '^[0-9]*	0	' "$work/row" ;;
    esac || complain "$1: not $2: $(cat "$work/row")"
}
while IFS='|' read -r line expected; do answered "$line" "$expected"; done <<'END'
the star, 64 MiB, ms: 25.3|1
the star, 64 MiB, ms: __25.8 ms__|1
the star, 64 MiB, ms: 25.9|0
the star, 64 MiB, ms: 0.0253 s|1
the star, 64 MiB, ms: 25300 µs|1
the star, 64 MiB, ms: 2.53e1|1
the star, 64 MiB, ms: about 25,3 ms (modelled)|1
the star, 64 MiB, ms: 25.3 s|the unit is wrong. It would be right in ms
the star, 64 MiB, ms: 0.0253|the unit is wrong. It would be right in s
the star, 64 MiB, ms: 35.3|right for bea, not for ada: the star
the star, 64 MiB, ms: 25.3 GB/s|is that GB/s?
the star, 64 MiB, ms: nan|no number
the star, 64 MiB, ms: -25.3|0
the star, 64 MiB, ms: ____|no number
busiest link, MB: 67.1 MB|1
busiest link, MB: 64 MiB|1
busiest link, MB: 64 mib|1
busiest link, MB: 64|the unit is wrong. It would be right in MiB
busiest link, MB: 537 Mb|1
how many times: 3.3|1
how many times (within 5 %): 3,2x|1
how many times: 320 %|1
how many times: 3.4|0
how many times: 3.2 ms|is that ms?
sent, B: 1,548,816|1
sent, B: 1.548.816 B|1
sent, B: 1,549 kB|1
sent, B: 1.55|the unit is wrong. It would be right in MB
END
verdict "answers are read with their units; wrong units and a neighbour's numbers are told"

# Each box of a sheet has a number, and a unit that is known.
sh tests/grader/draw.sh ada >"$work/my.machine"
# shellcheck disable=SC2046
sh tests/grader/numbers.sh "$build" "$work/my.machine" "$work/all" $(grep -ls '<!-- box:' chapters/*/lab_answers.md | xargs -n 1 dirname) 2>"$work/errors" &&
    sed 's/^/ada	/' "$work/all" | awk -v who=ada -f tests/grader/answered.awk - /dev/null >"$work/rows" 2>"$work/errors"
[ $? = 0 ] && [ "$(wc -l <"$work/rows")" = "$(cat chapters/*/lab.md | grep -c '^ *- `[^`]*: ____`$')" ] && [ "$(grep -c ____ "$work"/rows)" = "$(cat chapters/*/lab.md | grep -c ____)" ] ||
    complain "$(cat "$work/errors")"
verdict "each box of the sheets has a number and a unit"

# ---- a roster ------------------------------------------------------------------------------------------

roster() { printf "$1" >"$work/roster.csv" && awk -f tests/grader/roster.awk "$work/roster.csv" >"$work/students" 2>"$work/errors"; }
roster 'id,name\nada,"Ada Lovelace",s1\r\n\n# who left\nbea;Bea\n' && [ "$(cut -f 1 "$work/students" | uniq | tr '\n' ' ')" = "ada bea " ] &&
    grep -qx 'ada	Ada Lovelace' "$work/students" || complain "$(cat "$work/students" "$work/errors")"
for wrong in '' 'a b,c\n' 'ada\nAda\n' 'a,Bea\nb,bea\n' '../x\n' '#\n'; do
    ! roster "$wrong" && grep -q '^hint: ' "$work/errors" || complain "not refused: $wrong"
done
verdict "a roster is a list of IDs and names; what is none is refused"
# ---- mistakes to find ------------------------------------------------------------------------------------

spaceless() { tr -s ' \n' '  ' <"$1"; }
for rivals in $(grep -ls '^# drawable: ' chapters/*/exercises/*/rivals); do
    folder=${rivals%/rivals} drawable=$(sed -n 's/^# drawable: //p' "$rivals")
    # shellcheck disable=SC2046
    sh tests/grader/plant.sh "$folder" $(sed -n 's/^# planted: //p' "$rivals") >"$work/planted.c" 2>"$work/errors" &&
        [ "$(spaceless "$work/planted.c")" = "$(spaceless "$folder/your_part.c")" ] || complain "$(cat "$work/errors"; diff "$work/planted.c" "$folder/your_part.c")"
    verdict "$folder: your_part.c is the solution with the mistakes that are planted"
    for a in $drawable; do for b in ${drawable#*"$a"}; do for c in ${drawable#*"$b"}; do
        sh tests/grader/plant.sh "$folder" "$a" "$b" "$c" >"$work/planted.c" 2>"$work/errors" || complain "$a $b $c: $(cat "$work/errors")"
    done; done; done
    verdict "$folder: any three that may be drawn can be planted"
    [ "$(for id in a b c d e f g h; do sh tests/grader/plant.sh "$folder" for "$id"; done | tr ' ' '\n' | sort -u | wc -l)" -gt 4 ]
    verdict $? "$folder: students have different ones"
done

# ---- a class -------------------------------------------------------------------------------------------

# Three students do lab 2: Ada right, in units of her choice, Bea with Ada's numbers, and Cem, who forgets units.
if command -v bwrap >/dev/null && command -v bsdtar >/dev/null; then
    mkdir -p "$work/build/lab" "$work/class" && ln -s "$build"/[0l]* "$work/build" 2>/dev/null
    ln -s "$build/lab/exercises" "$build/lab/judge" "$work/build/lab"
    printf 'ada,Ada Lovelace\nbea\ncem\n' >"$work/roster.csv"
    sh tests/grader/kit.sh "$work/build" 06-3 "" "" "$work/roster.csv" >"$work/said" 2>&1 || complain "$(cat "$work/said")"
    for id in ada bea cem; do
        mkdir "$work/$id" && tar -C "$work/$id" -xzf "$work/build/lab/training-on-multiple-gpus.tar.gz" &&
            tar -C "$work/$id" -xzf "$work/build/lab/students/$id.tar.gz" || complain "$id: cannot be unpacked"
        sh tests/grader/draw.sh "$id" | cmp -s - "$work/$id/training-on-multiple-gpus/my.machine" || complain "$id: another machine"
        sh tests/grader/numbers.sh "$build" "$work/$id/training-on-multiple-gpus/my.machine" "$work/$id.tsv" chapters/02_* 2>"$work/errors" || complain "$(cat "$work/errors")"
    done
    grep -q "^bea	06-3	[a-z_]* [a-z_]* [a-z_]*$" "$work/build/lab/students/mistakes.tsv" || complain "mistakes.tsv: $(cat "$work/build/lab/students/mistakes.tsv")"
    verdict "each student's archive goes over the kit, with a machine of her own"
    cut -d '	' -f 5 "$work/ada.tsv" "$work/bea.tsv" "$work/cem.tsv" | sort | uniq -d >"$work/twice"
    [ -s "$work/ada.tsv" ] && [ ! -s "$work/twice" ]
    verdict $? "and with numbers of her own"
    fill() { # ID FROM FORMAT: what awk prints of a label and a number
        answers=$work/$1/training-on-multiple-gpus/chapters/02_get_params_and_allreduce/your_answers.md
        awk -F '\t' "FNR == NR { answer[\$2] = $3; next } { label = \$0; sub(/: ____\$/, \"\", label); if (label in answer) \$0 = label \": \" answer[label] } 1" "$work/$2.tsv" "$answers" >"$work/filled" &&
            cp "$work/filled" "$answers"
        (cd "$work/$1/training-on-multiple-gpus" && sh tests/grader/hand_in.sh build "" >"$work/said" 2>&1 && cp build/hand-in.tar.gz "$work/class/$4.tar.gz") || complain "$(cat "$work/said")"
    }
    fill ada ada '($3 == "ms" ? $5 / 1000 " s" : $5 " us")' "Ada Lovelace_4711"
    fill bea ada '$5' "bea-2"
    printf -- '- How long?\n  **You said 1.**\n- Why?\n  **You said yes.**\n' >"$work/cem/training-on-multiple-gpus/chapters/02_get_params_and_allreduce/predictions.md"
    fill cem cem '$5 * 1000' "hand-in-of-cem"
    env BUILD="$work/build" LIMIT=60 LABS=02 SUBMISSION= CLASS="$work/class" JSON="$work/all.json" CSV="$work/grades.csv" GRADESCOPE= JOBS=2 TRUSTED= STRICT= PART= SEED=1 STUDENTS="$work/roster.csv" \
        sh tests/grader/grade.sh >"$work/said" 2>&1 || complain "$(cat "$work/said")"
    n=$(wc -l <"$work/ada.tsv") shown=$work/said
    grep -q "^\"Ada Lovelace_4711.tar.gz\",ada,$n,$n,$n,\"\"$" "$work/grades.csv" || complain "ada: $(cat "$work/grades.csv")"
    grep "^\"bea-2.tar.gz\",bea,0,$n,0," "$work/grades.csv" | grep -q 'right for ada, not for bea' || complain "bea: $(cat "$work/grades.csv")"
    grep -q "^\"hand-in-of-cem.tar.gz\",cem,0,$n,0," "$work/grades.csv" && [ "$(grep -c 'the unit is wrong. It would be right in [nu]s' "$work/said")" = "$n" ] || complain "cem: $(cat "$work/grades.csv")"
    [ "$(head -n 1 "$work/build/lab/grades.tsv" | cut -f 4)" = "contained$work/roster.csv" ] || complain "it would begin anew: $(head -n 1 "$work/build/lab/grades.tsv")"
    grep -q 'note: 2 predictions in lab 02' "$work/said" || complain "predictions: $(cat "$work/said")"
    verdict "a class: right numbers have their points in any unit, a neighbour's none, and wrong units are told"
else
    skip "a class, graded" "no bubblewrap"
fi
echo "1..$tests"
