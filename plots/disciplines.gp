# disciplines.gp: test accuracy of a training with parameter servers, over pushes and over modelled time.
#
#   gnuplot -c plots/disciplines.gp CSV PNG
#
# CSV has the columns machine,workers,servers,seeds,slow,way,pushes,seconds,accuracy,least,most,lr,batch. `slow`: how many
# times as long the slowest worker takes; accuracy: the mean over the seeds; batch: rows of all workers together.
call ARG0[:strlen(ARG0) - strlen("disciplines.gp")]."style.gp" ARG1

ways = ''
stats csv skip 1 using (machine = strcol(1), W = $2, S = $3, seeds = $4, slow = $5, lr = $12, batch = $13, ways = with_new(ways, strcol(6)), 0) nooutput
pace = slow > 1 ? sprintf("one of them takes %g times as long", slow) : "equally fast"

set yrange [0:1]
set ylabel sprintf("accuracy, mean of %d seeds", seeds)
set xrange [0:*]
eval page(1, 2, 2, sprintf("LeNet, %d workers, %s", W, pace), \
    sprintf("learning rate %g for %d images of all workers; %d server%s; times as on %s; bars: lowest and highest of %d seeds", \
        lr, batch, S, S > 1 ? "s" : "", plain(machine), seeds))
do for [panel=7:8] {
    set title panel == 7 ? "over pushes" : "the same over modelled time"
    set xlabel panel == 7 ? "pushes applied" : "modelled seconds"
    plot for [w=1:words(ways)] csv skip 1 using (strcol(6) eq word(ways, w) ? column(panel) : NaN):9:10:11 \
            with yerrorbars lt w lw 0.6 pt 0 ps 0 notitle, \
        for [w=1:words(ways)] csv skip 1 using (strcol(6) eq word(ways, w) ? column(panel) : NaN):9 \
            with linespoints lt w title plain(word(ways, w))
    unset key
    unset ylabel
}
