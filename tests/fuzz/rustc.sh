#!/bin/sh
# RUSTC_WRAPPER: compiles our own crates so that the fuzzer sees which ways they take. All others stay as the main
# workspace has built them, and so does what the stable compiler can do: no sanitizer is needed without unsafe code.
case " $* " in
*' --crate-name hearth'[\ _]* | *' --crate-name agent_runner '*)
    exec "$@" --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
        -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
esac
exec "$@"
