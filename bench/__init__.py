"""The benchmark: this operator beside its peers, measured by the API server and by a watch.

`make bench` measures and writes docs/benchmarks.{json,md,svg}; docs/benchmarks.md says how and
why. The modules, lowest first:

    api           requests to the API server, for the measuring side
    environment   where it is measured: a control plane and one node that kwok plays
    shipped       our operator as its image has it, as a plain process
    peers         who is measured, each a process like the others
    world         what a watch shows: who is right, and since when
    measures      what is measured, each a function
    audit         who wrote what, by the API server's own account
    report        the table and the verdicts, from the data
    picture       the picture, from the data
    run           all of it, in order: the command
"""
