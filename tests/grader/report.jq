# report.jq: grades (grade.sh) for other programs. $form: "class", an array of
#
#     {"format": "training-on-multiple-gpus grades 2", "name": "ada", "contained": true, "points": 7, "of": 10,
#      "exercises": [{"id": "04-3", "title": "efficient allreduce", "points": 7, "of": 10, "seconds": 0.1,
#          "parts": [{"what": "..", "points": 3, "of": 3, "passed": true},
#                    {"what": "..", "points": 0, "of": 2, "passed": false, "reason": "..", "hint": ".."}]}]}
#
# "" the one of a single hand-in, "gradescope" its results.json (gradescope-autograders.readthedocs.io, "Output Format"),
# where each part is a test. "student" (of the roster) and "notes" are for the instructor alone. An exercise of which no part could be tried has a reason and a hint, too; a hand-in that could
# not be graded has "error": by a fault of the grader or of the machine, or as it cannot be read.
def why($row): if $row[6] == "" then {} else {reason: $row[6], hint: $row[7]} end;
def part: {what: .[5], points: (.[3] | tonumber), of: (.[4] | tonumber)} | .passed = (.points == .of);
def exercise: # of its rows
    .[0] as $all | {id: $all[1], title: $all[5], points: ($all[3] | tonumber), of: ($all[4] | tonumber)}
    + (if $all[8] == "" then {} else {seconds: ($all[8] | tonumber)} end) + why($all)
    + {parts: [.[1:][] | part + why(.)]};
def report: # of a hand-in's rows
    {format: "training-on-multiple-gpus grades 2", name: .[0][0]}
    + if .[0][1] == "error" then {error: .[0][2], points: 0, of: 0, exercises: []}
      else [.[] | select(.[1] == "note") | .[2]] as $notes | ([.[] | select(.[1] == "student") | .[2]] | first) as $student
          | [map(select(.[1] != "note" and .[1] != "student")) | group_by(.[1])[] | exercise] as $all
          | (if $student then {$student} else {} end) + (if $notes == [] then {} else {$notes} end) + {contained: ($trust == "contained"), points: ([$all[].points] | add), of: ([$all[].of] | add), exercises: $all} end;
def gradescope:
    {tests: [.exercises[] | . as $e | .parts | to_entries[] | .key as $i | .value | (if $e.reason then $e else . end) as $why
        | {score: .points, max_score: .of, status: (if .passed then "passed" else "failed" end),
           name: "\($e.id) \($e.title): \(.what)", number: "\($e.id).\($i + 1)",
           output: (if .passed then "" else "\($why.reason)\nhint: \($why.hint)" end), output_format: "text", visibility: "visible"}],
     score: .points, execution_time: ([.exercises[].seconds // 0] | add), visibility: "visible", stdout_visibility: "hidden"};

[split("\n")[] | select(. != "") | split("\t")] | reduce .[] as $row ([];
    if length > 0 and .[-1][0][0] == $row[0] then .[-1] += [$row] else . + [[$row]] end)
| map(report) | if $form == "class" then . elif $form == "gradescope" then .[0] | gradescope else .[0] end
