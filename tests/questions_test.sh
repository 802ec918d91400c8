#!/bin/sh
# questions_test.sh BUILD: chapters/questions.md: its commands end as it says and print what it shows (those of the book, if
# they are new), each question has an answer of two to five sentences, a command, a section and a thread, and its PyTorch code
# runs. That the search finds the questions is checked in a browser (make book-check). Prints TAP.
. "$(dirname "$0")/tap.sh"
cd "$root" || exit 1
page=chapters/questions.md
kept=$build/runs/questions/shown
if [ -z "$(find "$kept" -newer "$build/libbook.a" -newer $page 2>/dev/null)" ]; then
    sh plots/book/shown.sh "$build" "$work/questions" >"$work/log" 2>&1 || complain "$(cat "$work/log")"
    kept=$work/questions/shown
fi
[ "$(grep -c '^	' "$kept")" = "$(grep -c '^<!-- .*shows: ' $page)" ] || ! command -v mpirun >/dev/null ||
    complain "not all commands were run"
verdict "commands end as the page says, and print what it shows"

# Planted mistakes, each with what has to be said of it.
while IFS='|' read -r command mark wanted; do
    printf '# Title\n\n```sh\n%s\n```\n<!-- %s -->\n' "$command" "$mark" >"$work/planted.md"
    sh plots/book/shown.sh "$build" "$work/planted" "$work/planted.md" >"$work/log" 2>&1 && complain "no error: $wanted"
    grep -q "^book: error: $work/planted.md:6: $wanted" "$work/log" || complain "not '$wanted': $(cat "$work/log")"
done <<'END'
echo one; exit 3|shows: one|it ended with status 3, not 0
echo one|exits 1, shows: one|it ended with status 0, not 1
echo one|shows: one; two|it does not print what it shows
END
printf '```sh\necho one\necho two\n```\n<!-- shows: one -->\n' >"$work/planted.md"
sh plots/book/shown.sh "$build" "$work/planted" "$work/planted.md" >"$work/log" 2>&1
grep -q "planted.md:5: below no command of one line" "$work/log" || complain "two lines: $(cat "$work/log")"
verdict "planted mistakes are found"

# Of each question: the sentences of its answer, its commands, links to sections, threads.
awk '
    function check() {
        if (question && (sentences < 2 || sentences > 5 || !commands || !sections || !threads))
            print "# " question ": " sentences " sentences, " commands + 0 " commands, " sections + 0 " sections, " threads + 0 " threads"
        sentences = commands = sections = threads = 0; question = ""
    }
    /^##/ { check() }
    /^### / { question = $0; n++; next }
    /^<!-- (exits [0-9]+, )?shows: / { commands++ }
    /^(<!--|```)/ { in_code = /^```(sh|python)/; next }
    in_code || !question { next }
    /^Explained in / { of_links = 1 }
    /^$/ { of_links = 0 }
    { sections += /\]\(([0-9][0-9]_[a-z0-9_]*\/main\.c#|running_it\.md)/; threads += /\[[^] ]+(#|\/)[0-9]+\]\(https:/ }
    !of_links { sentences += gsub(/[.?!]+[)"]?( |$)/, " ") }
    END { check(); if (n < 25) print "# " n " questions" }' $page >>"$problems"
verdict "each question has an answer, a command, a section and a thread"

python=$root/build/torch/bin/python
if ! "$python" -c 'import torch' 2>/dev/null; then
    skip "the PyTorch code" "no PyTorch in build/torch"
else
    {
        cat <<'END'
import contextlib, itertools, time, torch, torch.distributed as dist, torch.nn.functional as F
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
if dist.get_rank(): print = lambda *words: None
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer, device, wait = torch.optim.SGD(net.parameters(), 0.1), "cpu", lambda: None
parts = loader = [(torch.randn(8, 4), torch.randint(2, (8,))) for _ in range(50)]
torch.manual_seed(0)
train_set = test_set = TensorDataset(torch.randn(101, 4), torch.randint(2, (101,)))
epochs, validate = 2, print
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)])
    def forward(self, X):
        return self.layers[1](self.layers[0](X))
model = Model()
END
        sed -n '/^```python$/,/^```$/{/^```/!p}' $page
        cat <<'END'
weights = [torch.zeros(2, 4), torch.zeros(2, 4)]
dist.all_gather(weights, net.module.weight.detach())
print("the replicas differ:", not torch.equal(*weights))
F.cross_entropy(model(X), y).backward()
optimizer.step()
print("parts of the optimizer's state:", sum(s["exp_avg"].to_local().numel() for s in optimizer.state.values()))
print("rows, on all ranks and tested:", rows.item(), counts[1].item())
END
    } >"$work/measure.py"
    "$python" -m torch.distributed.run --nproc_per_node=2 "$work/measure.py" >"$work/log" 2>&1 || complain "$(tail -n 5 "$work/log")"
    [ "$(grep -c -E '^(a step|without data|twice the rows|an allreduce|without exchange) +[0-9.]+$' "$work/log")" = 5 ] &&
        grep -q '^the replicas differ: True$' "$work/log" && grep -q 'tested: 16 101.0$' "$work/log" &&
        grep -q 'state: 15$' "$work/log" || complain "$(cat "$work/log")"
    verdict "the PyTorch code runs on two processes: five times are measured, all rows are tested once"
fi
echo "1..$tests"
