# The time that the processors of a machine worked, as one line: see assay.prove.busy.
#
# Reads the uptime, the statistics of the kernel, and what is ours: a file of a control group, or
# the state of each process. The variables are shell, the process of the job, and hz, the ticks of
# the clock in a second.

# Of each process its parent, its session, and its time with that of the children that it has
# waited for. A process that lost its parent is still in the session that ReFrame begins for each
# job. The parent of the job is ReFrame, whose own time for polling counts as ours, too.
/^[0-9]+ \(/ {
  pid = $1
  sub(/^.*\) /, "")
  parent[pid] = $2
  session[pid] = $4
  own[pid] = $12 + $13
  spent[pid] = own[pid] + $14 + $15
  if (int($7 / 2097152) % 2) kernel += $12 + $13
  processes = 1
}

# The time of a control group, of version 1 and of version 2.
NF == 1 && /^[0-9]+$/ { group = $1 / 1e9 }
/^usage_usec / { group = $2 / 1e6 }

/^cpu / { used = $2 + $3 + $4 + $9; steal = $9 }
/^cpu[0-9]/ { cores++ }
/^[0-9]+\.[0-9]+ [0-9]+\.[0-9]+$/ { at = $1 }

END {
  ours = group
  if (processes) {
    sum = 0
    for (pid in parent) {
      up = pid
      while (up != shell && up in parent) up = parent[up]
      if (up == shell || session[pid] == shell) sum += spent[pid]
    }
    ours = (sum + own[parent[shell]] + kernel) / hz
  }
  if (ours == "") exit
  printf "at=%.2f cores=%d used=%.2f ", at, cores, used / hz
  printf "stolen=%.2f ours=%.2f\n", steal / hz, ours
}
