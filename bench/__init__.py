"""The benchmark: compares this operator with its peers, with a watch and the audit log.

`make bench` measures and writes docs/benchmarks.{json,md}; docs/benchmarks.md says how
and why. The modules, lowest first:

    api           requests to the API server, for the benchmark itself
    environment   a control plane per measurement, its node simulated by kwok, and its audit
    shipped       our operator's image, run as a plain process
    peers         the operators to measure, each a process like the others
    watched       collections of objects that are watched, and a way to wait for them
    world         the watched state: which Messages are right, and since when
    stage         what every measurement needs: a watched control plane, and Messages
    measures      the measurements, one function each
    trouble       the measurements with lost answers and a hanging webhook
    examples      the measurements of the operators in examples/
    reviews       the measurement of conversions and admissions
    bare, floor   the floor: a bare client, and its process
    korean        the labels of the tables in Korean
    report        the tables and the goals, from the data, and the pages with them
    run           the command: runs all of it in order
"""
