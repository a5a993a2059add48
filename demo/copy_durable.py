"""Copies a tree so that every file is on the disk before it counts as copied: the peer of durability = power."""

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

THREADS_PER_CPU = 8


def flush(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def copy(pair):
    source, target = pair
    shutil.copy2(source, target, follow_symlinks=False)
    if not os.path.islink(target):
        flush(target)
    flush(os.path.dirname(target))


def main():
    source, target = sys.argv[1:]
    pairs = []
    for directory, _, names in os.walk(source):
        here = os.path.join(target, os.path.relpath(directory, source))
        os.makedirs(here)
        pairs += [(os.path.join(directory, name), os.path.join(here, name)) for name in names]
    with ThreadPoolExecutor(THREADS_PER_CPU * os.cpu_count()) as pool:
        list(pool.map(copy, pairs))


main()
