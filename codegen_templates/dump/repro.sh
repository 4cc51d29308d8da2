#!/bin/sh
# Builds and runs the kernel. With an edited kernel.ll: clang -O2 -c kernel.ll -o kernel.o, then this.
cd "$(dirname "$0")" && ${CC:-cc} -std=gnu11 -O2 main.c kernel.o -lm -o repro && ./repro
