#!/bin/sh
# classroom.sh BUILD LABS FILE: writes the workflow with which GitHub Classroom grades these exercises ("": all): a step
# for each part of each exercise, with its points (classroom-resources/autograding-command-grader), and one that reports
# them (autograding-grading-reporter). A test is passed if its command ends with status 0.
set -eu
labs=$(sh tests/grader/labs.sh lab-kit "$2" | cut -d ' ' -f 1)
mkdir -p "$(dirname "$3")"
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
    # (What needs MPI may not be built here.)
    for lab in $labs; do sed -n "s/^part/$lab/p" "$1/lab/exercises/$lab/expected.tsv" 2>/dev/null || :; done | awk -F '\t' '
        {
            number = $1 == last ? number + 1 : 1
            last = $1
            id = "lab-" $1 "-part-" number
            name = $1 "." number " " $3
            gsub("\047", "\047\047", name) # in single quotes only a single quote is special in YAML
            print "    - name: \047" name "\047"
            print "      id: " id
            print "      uses: classroom-resources/autograding-command-grader@v1"
            print "      with:"
            print "        test-name: \047" name "\047"
            print "        setup-command: \047\047"
            print "        command: make -s grade LABS=" $1 " PART=" number " STRICT=1"
            print "        timeout: 10"
            print "        max-score: " $2
            results = results "        " toupper(id) "_RESULTS: \"${{steps." id ".outputs.result}}\"\n"
            runners = runners (NR > 1 ? "," : "") id
        }
        END {
            print "    - name: Autograding Reporter"
            print "      uses: classroom-resources/autograding-grading-reporter@v1"
            print "      env:\n" results "      with:\n        runners: " runners
        }'
} >"$3"
