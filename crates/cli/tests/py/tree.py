"""A tree of files with every attribute that files have, and what attributes the files of a tree have.

    tree.py make DIR SEED SOURCE...   copies of these directories below DIR, with attributes by the seed; prints what must be found
    tree.py tell DIR                  prints what is found

A line for each file, the same in both cases if all is as it must be. Times of last access are told of what is no directory and
no link, in seconds, since the programs that copy them have no more.
"""

import errno
import hashlib
import os
import random
import stat
import struct
import sys

SECOND = 10**9
IS_ROOT = os.geteuid() == 0
LISTS = ("system.posix_acl_access", "system.posix_acl_default")


def access_list(mode):
    """A POSIX access control list, as linux/posix_acl_xattr.h has it, of a file whose group bits are its mask."""
    nobody = 0xFFFFFFFF
    entries = [(1, mode >> 6 & 7, nobody), (2, 5, 12345), (4, 4, nobody), (16, mode >> 3 & 7, nobody), (32, mode & 7, nobody)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def put(path, source, draw):
    """Makes one file from another; the ranges that have data."""
    if source is None:
        # Longer than two chunks, with holes between and at the end.
        parts = [(0, 65536), (3 << 20, 65536), (5 << 20, 65536)]
        with open(path, "xb") as file:
            for at, count in parts:
                file.seek(at)
                file.write(bytes(draw.randrange(1, 256) for _ in range(count)))
            file.truncate(7 << 20)
        return parts
    with open(source, "rb") as file:
        data = file.read()
    with open(path, "xb") as file:
        file.write(data)
    return [(0, len(data))] if data else []


class Plan:
    """Attributes drawn for one file."""

    def __init__(self, draw, kind):
        self.uid, self.gid = (draw.choice([(0, 0), (12345, 23456), (65534, 0)])) if IS_ROOT else (os.geteuid(), os.getegid())
        modes = {"d": [0o755, 0o700, 0o1777, 0o2755], "f": [0o644, 0o600, 0o4755, 0o440, 0o7777], "p": [0o620, 0o666]}
        self.mode = draw.choice(modes.get(kind, [0o777]))
        self.mtime = draw.randrange(1, 17 * 10**8) * SECOND + draw.randrange(SECOND)
        self.atime = draw.randrange(1, 17 * 10**8) * SECOND
        self.lists, self.extra = {}, {}
        if kind in "fd":
            for n in range(draw.randrange(3)):
                self.extra[f"user.stone-{n}"] = draw.randbytes(draw.randrange(1, 300))
            if draw.randrange(3) == 0:
                self.lists[LISTS[0]] = access_list(self.mode)
            if kind == "d" and draw.randrange(2) == 0:
                self.lists[LISTS[1]] = access_list(0o750)

    def apply(self, path, is_link):
        os.chown(path, self.uid, self.gid, follow_symlinks=False)
        if not is_link:
            os.chmod(path, self.mode)
        for name, value in {**self.lists, **self.extra}.items():
            os.setxattr(path, name, value)

    def set_times(self, path):
        os.utime(path, ns=(self.atime, self.mtime), follow_symlinks=False)


def line_of(name, kind, facts):
    return f"{name} {kind} " + " ".join(f"{fact}={value}" for fact, value in facts.items())


def attributes(mode, uid, gid, mtime, atime, links, same_as):
    facts = {"mode": oct(mode), "owner": uid, "group": gid, "mtime": mtime, "links": links, "same": same_as}
    if atime is not None:
        facts["atime"] = atime // SECOND
    return facts


def xattrs_line(values):
    return ",".join(f"{name}:{hashlib.sha1(value).hexdigest()[:12]}" for name, value in sorted(values.items())) or "-"


def sources(roots):
    """Relative path, kind and source of all that is to be made, directories before what is in them."""
    for root in roots:
        top = os.path.basename(root)
        for folder, folders, files in os.walk(root):
            folders.sort()
            here = os.path.join(top, os.path.relpath(folder, root)).removesuffix("/.")
            yield here, "d", folder
            for name in sorted(files):
                yield os.path.join(here, name), "f", os.path.join(folder, name)
    yield "odd", "d", None
    yield "odd/sparse", "f", None
    yield "odd/pipe", "p", None
    yield "odd/link", "l", "sparse"
    yield "odd/name with space\nand line", "f", __file__


def make(top, seed, roots):
    draw = random.Random(int(seed))
    os.mkdir(top)
    made = []
    for name, kind, source in sources(roots):
        path, plan = os.path.join(top, name), Plan(draw, kind)
        parts = None
        if kind == "d":
            os.mkdir(path)
        elif kind == "p":
            os.mkfifo(path)
        elif kind == "l":
            os.symlink(source, path)
        else:
            parts = put(path, source, draw)
        made.append((name, kind, plan, parts, [name]))
    # Some have a second name in another directory.
    for entry in [entry for entry in made if entry[1] == "f" and entry[0] != "odd/sparse"][::9]:
        other = f"odd/again-{len(entry[0])}-{draw.randrange(10**9)}"
        os.link(os.path.join(top, entry[0]), os.path.join(top, other))
        entry[4].append(other)
    for name, kind, plan, _, _ in made:
        plan.apply(os.path.join(top, name), kind == "l")
    lines = []
    for name, kind, plan, parts, names in made:
        mode = 0o777 if kind == "l" else plan.mode
        links = "-" if kind == "d" else len(names)
        for own in names:
            facts = attributes(mode, plan.uid, plan.gid, plan.mtime, None if kind in "dl" else plan.atime, links, repr(min(names)))
            facts["xattrs"] = xattrs_line({**plan.lists, **plan.extra})
            if kind == "l":
                facts["target"] = os.readlink(os.path.join(top, own))
            if kind == "f":
                facts |= contents(os.path.join(top, own), parts)
            lines.append(line_of(repr(own), kind, facts))
    # Last, and directories after what is in them: whatever was done before has moved them.
    for name, _, plan, _, _ in reversed(made):
        plan.set_times(os.path.join(top, name))
    return lines


def contents(path, parts=None):
    digest = hashlib.sha1()
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        found = [] if parts is None else parts
        at = 0
        while parts is None and at < size:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                break
            end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            found.append((at, end - at))
            at = end
        file.seek(0)
        while data := file.read(1 << 20):
            digest.update(data)
    return {"size": size, "data": found, "sha1": digest.hexdigest()}


def tell(top):
    """All attributes are looked at before any contents: to read them is an access."""
    found, names = [], {}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            own = os.path.relpath(path, top)
            status = os.lstat(path)
            found.append((own, path, status))
            names.setdefault(status.st_ino, []).append(own)
    lines = []
    for own, path, status in found:
        kind = {stat.S_IFDIR: "d", stat.S_IFREG: "f", stat.S_IFLNK: "l", stat.S_IFIFO: "p"}[stat.S_IFMT(status.st_mode)]
        is_dir = kind == "d"
        facts = attributes(
            stat.S_IMODE(status.st_mode),
            status.st_uid,
            status.st_gid,
            status.st_mtime_ns,
            None if kind in "dl" else status.st_atime_ns,
            "-" if is_dir else status.st_nlink,
            repr(min(names[status.st_ino])),
        )
        values = {}
        if kind in "fd":
            own_names = [name for name in os.listxattr(path) if not name.startswith("system.")]
            for name in [*own_names, *LISTS]:
                try:
                    values[name] = os.getxattr(path, name)
                except OSError as error:
                    if name not in LISTS or error.errno not in (errno.ENODATA, errno.EOPNOTSUPP):
                        raise
        facts["xattrs"] = xattrs_line(values)
        if kind == "l":
            facts["target"] = os.readlink(path)
        if kind == "f":
            facts |= contents(path)
        lines.append(line_of(repr(own), kind, facts))
    return lines


what, top, *rest = sys.argv[1:]
print("\n".join(sorted(make(top, *rest[:1], rest[1:]) if what == "make" else tell(top))))
