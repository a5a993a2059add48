"""The table and the plot of a demo run. Standard library only: a PNG is a few chunks around zlib."""

import json
import struct
import sys
import zlib

# Five columns by seven rows, one string a row: enough to label a bar chart without a font file.
GLYPHS = {
    "A": "01110 10001 10001 11111 10001 10001 10001", "B": "11110 10001 11110 10001 10001 10001 11110",
    "C": "01110 10001 10000 10000 10000 10001 01110", "D": "11110 10001 10001 10001 10001 10001 11110",
    "E": "11111 10000 11110 10000 10000 10000 11111", "F": "11111 10000 11110 10000 10000 10000 10000",
    "G": "01110 10001 10000 10111 10001 10001 01110", "H": "10001 10001 11111 10001 10001 10001 10001",
    "I": "01110 00100 00100 00100 00100 00100 01110", "J": "00111 00010 00010 00010 00010 10010 01100",
    "K": "10001 10010 11100 10010 10001 10001 10001", "L": "10000 10000 10000 10000 10000 10000 11111",
    "M": "10001 11011 10101 10101 10001 10001 10001", "N": "10001 11001 10101 10011 10001 10001 10001",
    "O": "01110 10001 10001 10001 10001 10001 01110", "P": "11110 10001 10001 11110 10000 10000 10000",
    "Q": "01110 10001 10001 10001 10101 10010 01101", "R": "11110 10001 10001 11110 10100 10010 10001",
    "S": "01111 10000 01110 00001 00001 10001 01110", "T": "11111 00100 00100 00100 00100 00100 00100",
    "U": "10001 10001 10001 10001 10001 10001 01110", "V": "10001 10001 10001 10001 01010 01010 00100",
    "W": "10001 10001 10001 10101 10101 11011 10001", "X": "10001 01010 00100 00100 00100 01010 10001",
    "Y": "10001 10001 01010 00100 00100 00100 00100", "Z": "11111 00010 00100 00100 01000 10000 11111",
    "0": "01110 10011 10101 10101 10101 11001 01110", "1": "00100 01100 00100 00100 00100 00100 01110",
    "2": "01110 10001 00001 00110 01000 10000 11111", "3": "11110 00001 01110 00001 00001 00001 11110",
    "4": "00010 00110 01010 10010 11111 00010 00010", "5": "11111 10000 11110 00001 00001 10001 01110",
    "6": "01110 10000 11110 10001 10001 10001 01110", "7": "11111 00001 00010 00100 00100 01000 01000",
    "8": "01110 10001 01110 10001 10001 10001 01110", "9": "01110 10001 10001 01111 00001 00001 01110",
    ".": "00000 00000 00000 00000 00000 00110 00110", ",": "00000 00000 00000 00000 00110 00110 01100",
    "-": "00000 00000 00000 01110 00000 00000 00000", "/": "00001 00010 00010 00100 01000 01000 10000",
    "(": "00010 00100 01000 01000 01000 00100 00010", ")": "01000 00100 00010 00010 00010 00100 01000",
    ":": "00000 00110 00110 00000 00110 00110 00000", "=": "00000 00000 01110 00000 01110 00000 00000",
}
WHITE, BLACK, GREY, BLUE, ORANGE = (255,) * 3, (30,) * 3, (215,) * 3, (38, 90, 160), (222, 140, 48)


class Image:
    def __init__(self, width, height):
        self.width, self.height = width, height
        self.rows = [bytearray(bytes(WHITE) * width) for _ in range(height)]

    def box(self, left, top, width, height, colour):
        for y in range(max(top, 0), min(top + height, self.height)):
            begin, end = max(left, 0), min(left + width, self.width)
            if begin < end:
                self.rows[y][3 * begin : 3 * end] = bytes(colour) * (end - begin)

    def text(self, left, top, text, scale=2, colour=BLACK):
        for index, letter in enumerate(text.upper()):
            for y, bits in enumerate(GLYPHS.get(letter, "").split()):
                for x, bit in enumerate(bits):
                    if bit == "1":
                        self.box(left + (6 * index + x) * scale, top + y * scale, scale, scale, colour)

    def png(self):
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        head = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        pixels = zlib.compress(b"".join(b"\0" + bytes(row) for row in self.rows), 9)
        return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def read(path):
    rows = []
    with open(path) as lines:
        for line in lines:
            tree, how, files, size, seconds = line.rstrip("\n").split("\t")
            rows.append((tree, how, int(files), int(size), max(float(seconds), 0.01)))
    return rows


def table(rows):
    print(f"{'tree':<18}{'how':<14}{'files':>8}{'bytes':>15}{'seconds':>9}{'MB/s':>9}{'files/s':>10}")
    for tree, how, files, size, seconds in rows:
        rate = size / seconds / 1e6
        print(f"{tree:<18}{how:<14}{files:>8}{size:>15,}{seconds:>9.2f}{rate:>9.1f}{files / seconds:>10.0f}")


def plot(rows, path):
    fastest = max(size / seconds for _, _, _, size, seconds in rows)
    left, width, step = 300, 560, 34
    image = Image(left + width + 260, 90 + step * len(rows) + 12 * len({row[0] for row in rows}))
    image.text(24, 20, "put a tree, all of it on the disk: MB/s", scale=3)
    y, before = 70, None
    for tree, how, _, size, seconds in rows:
        y += 12 if before not in (None, tree) else 0
        rate = size / seconds
        ours = how == "dolmen"
        bar = int(width * rate / fastest)
        image.text(24, y + 8, tree if before != tree else '', scale=2)
        image.text(left - 8 - 12 * len(how), y + 8, how, scale=2)
        image.box(left, y, width, step - 8, GREY)
        image.box(left, y, bar, step - 8, BLUE if ours else ORANGE)
        image.text(left + width + 12, y + 6, f"{rate / 1e6:.1f}  {seconds:.2f} s")
        y, before = y + step, tree
    with open(path, "wb") as out:
        out.write(image.png())


def main():
    rows_path, pool_path, png_path = sys.argv[1:]
    rows = read(rows_path)
    table(rows)
    plot(rows, png_path)
    with open(pool_path) as file:
        targets = json.load(file)["response"]["targets"]
    held = {name: sum(target[name] for target in targets) for name in ("bulk_bytes", "log_bytes", "run_bytes")}
    held["allocated_bytes"] = sum(target["allocated_bytes"] for target in targets)
    print("space: " + ", ".join(f"{name.removesuffix('_bytes')} {size / 1e6:,.0f} MB" for name, size in held.items()))
    print(f"plot: {png_path}")


main()
