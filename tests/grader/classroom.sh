#!/bin/sh
# classroom.sh BUILD LABS FILE: writes the workflow with which GitHub Classroom grades these exercises ("": all): a step
# for each part of each exercise, with its points (classroom-resources/autograding-command-grader), and one that reports
# them (autograding-grading-reporter). A test is passed if its command ends with status 0.
set -eu
build=$1 labs=$2 file=$3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
sh tests/grader/labs.sh lab-kit "$labs" >"$work/labs"
mkdir -p "$(dirname "$file")"
{
    cat <<'END'
name: Autograding Tests
'on':
- push
- repository_dispatch
permissions:
  checks: write
  actions: read
  contents: read
jobs:
  run-autograding-tests:
    runs-on: ubuntu-latest
    if: github.actor != 'github-classroom[bot]'
    steps:
    - name: Checkout code
      uses: actions/checkout@v4
    - name: Install and build
      run: make setup grade
END
    while read -r lab folder; do
        expected=$build/lab/exercises/$lab/expected.tsv number=0
        [ -f "$expected" ] || continue # not built here (MPI)
        sed -n 's/^part\t//p' "$expected" >"$work/parts"
        while read -r points what; do
            number=$((number + 1))
            id=lab-$lab-part-$number
            echo "$id" >>"$work/ids"
            # In YAML's single quotes only a single quote is special.
            name=$(printf '%s' "$lab.$number $what" | sed "s/'/''/g")
            cat <<END
    - name: '$name'
      id: $id
      uses: classroom-resources/autograding-command-grader@v1
      with:
        test-name: '$name'
        setup-command: ''
        command: make -s grade LABS=$lab PART=$number STRICT=1
        timeout: 10
        max-score: $points
END
        done <"$work/parts"
    done <"$work/labs"
    cat <<'END'
    - name: Autograding Reporter
      uses: classroom-resources/autograding-grading-reporter@v1
      env:
END
    while read -r id; do
        echo "        $(echo "$id" | tr '[:lower:]' '[:upper:]')_RESULTS: \"\${{steps.$id.outputs.result}}\""
    done <"$work/ids"
    echo "      with:"
    echo "        runners: $(paste -sd , "$work/ids")"
} >"$file"
