"""Speed of event data beside ROOT, uproot and Parquet, in one run: seconds of the processor, on one core.

    python ntuple.py [--events 4000000] [--rounds 3] [--directory DIR]

Flat events have the 26 columns of LHCb's B2HHH (20 of f64, 6 of i32; momenta rounded to hundredths), nested ones lists of particles. All
writers get the same arrays in memory; all readers end with the values in memory. Files are in the page cache. Each figure is the best of
the rounds, in which all take turns; what is compared is in the same run.
"""

import argparse
import os
import pathlib
import tempfile
import time

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import uproot
from dolmen import rntuple

DOUBLES = [f"H{at // 6 + 1}_P{'XYZ' [at % 3]}{at % 6 // 3}" for at in range(18)] + ["B_FlightDistance", "B_VertexChi2"]
INTEGERS = [f"H{at % 3 + 1}_{'Charge' if at < 3 else 'isMuon'}" for at in range(6)]
#: Columns that an analysis reads.
NINE = DOUBLES[:9]

ROOT_CODE = """
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleReader.hxx>
#include <ROOT/RNTupleWriter.hxx>
#include <ROOT/RNTupleWriteOptions.hxx>
using namespace ROOT;
void dolmen_write(const char *path, int compression, std::size_t count, std::vector<std::string> doubles, std::vector<std::size_t> d,
                  std::vector<std::string> integers, std::vector<std::size_t> i) {
  auto model = RNTupleModel::Create();
  std::vector<std::shared_ptr<double>> ds; std::vector<std::shared_ptr<int>> is;
  for (auto &name : doubles) ds.push_back(model->MakeField<double>(name));
  for (auto &name : integers) is.push_back(model->MakeField<int>(name));
  RNTupleWriteOptions options; options.SetCompression(compression);
  auto writer = RNTupleWriter::Recreate(std::move(model), "events", path, options);
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t n = 0; n < ds.size(); ++n) *ds[n] = reinterpret_cast<const double *>(d[n])[k];
    for (std::size_t n = 0; n < is.size(); ++n) *is[n] = reinterpret_cast<const int *>(i[n])[k];
    writer->Fill();
  }
}
template <class T> void dolmen_column(RNTupleReader &reader, const std::string &name, T *to) {
  auto view = reader.GetDirectAccessView<T>(name);
  for (auto k : reader.GetEntryRange()) to[k] = view(k);
}
void dolmen_read(const char *path, std::vector<std::string> doubles, std::vector<std::string> integers) {
  auto reader = RNTupleReader::Open("events", path);
  const auto count = reader->GetNEntries();
  for (auto &name : doubles) { std::unique_ptr<double[]> to(new double[count]); dolmen_column<double>(*reader, name, to.get()); }
  for (auto &name : integers) { std::unique_ptr<int[]> to(new int[count]); dolmen_column<int>(*reader, name, to.get()); }
}
"""


def flat(count):
    rng = np.random.default_rng(1)
    made = {name: np.round(rng.normal(0, 3000, count) * rng.random(count), 2) for name in DOUBLES}
    made |= {name: rng.integers(-1, 2, count, "i4") for name in INTEGERS}
    return made


def nested(count):
    rng = np.random.default_rng(2)
    lengths = rng.integers(0, 21, count)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    total = int(offsets[-1])
    inner = rng.integers(0, 5, total)
    inner_offsets = np.concatenate([[0], np.cumsum(inner)])
    ids = ak.contents.NumpyArray(rng.integers(0, 1000, int(inner_offsets[-1]), "i4"))
    lists = ak.contents.ListOffsetArray(ak.index.Index64(inner_offsets), ids)
    four = [ak.contents.NumpyArray(rng.normal(size=total).astype("f4")) for _ in range(4)]
    pdg = ak.contents.NumpyArray(rng.integers(-13, 14, total, "i4"))
    record = ak.contents.RecordArray([*four, pdg, lists], ["pt", "eta", "phi", "mass", "pdg", "ids"])
    particles = ak.contents.ListOffsetArray(ak.index.Index64(offsets), record)
    return {"event": np.arange(count, dtype="i4"), "particles": ak.Array(particles)}


def timed(work):
    """Seconds of the processor, of all threads, in the program and in the system."""
    before = time.process_time()
    work()
    return time.process_time() - before


class Table:
    """Figures by what is done and by whom; the best of each."""

    def __init__(self):
        self.best = {}

    def take(self, what, who, gigabytes, work):
        seconds = timed(work)
        key = (what, who)
        rate = gigabytes / seconds
        if rate > self.best.get(key, (0, 0))[0]:
            self.best[key] = (rate, seconds)

    def show(self):
        for what in dict.fromkeys(what for what, _ in self.best):
            rows = [(who, *figures) for (of, who), figures in self.best.items() if of == what]
            others = [rate for who, rate, _ in rows if not who.startswith("Dolmen")]
            print(f"\n### {what}\n\n| | GB/s | seconds | of the best other |\n|---|---:|---:|---:|")
            for who, rate, seconds in rows:
                part = f"{rate / max(others):.2f}" if others and who.startswith("Dolmen") else ""
                print(f"| {who} | {rate:.2f} | {seconds:.3f} | {part} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=pathlib.Path)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    import ROOT

    ROOT.gInterpreter.Declare(ROOT_CODE)
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        run(ROOT, pathlib.Path(directory), arguments)


def run(root, place, arguments):
    table = Table()
    made, count = flat(arguments.events), arguments.events
    gigabytes = sum(values.nbytes for values in made.values()) / 1e9
    arrow = pa.table(made)
    addresses = [[made[name].ctypes.data for name in names] for names in (DOUBLES, INTEGERS)]
    for _ in range(arguments.rounds):
        for compression, settings, of_uproot, codec in [
            ("none", 0, None, "none"),
            ("zstd1", 501, uproot.ZSTD(1), "zstd"),
        ]:
            files = {who: place / f"{who}-{compression}" for who in ("dolmen", "root", "uproot", "parquet")}
            ours = "none" if compression == "none" else "zstd:1"
            what = f"write 26 columns, {compression}"
            table.take(what, "Dolmen", gigabytes, lambda: rntuple.write_root(files["dolmen"], "events", made, compression=ours))
            table.take(what, "ROOT", gigabytes, lambda: root.dolmen_write(str(files["root"]), settings, count, DOUBLES, addresses[0], INTEGERS, addresses[1]))
            table.take(what, "uproot", gigabytes, lambda: write_uproot(files["uproot"], made, of_uproot))
            plain = {} if codec == "none" else {"use_byte_stream_split": list(DOUBLES), "compression_level": 1}
            table.take(what, "Parquet", gigabytes, lambda: pq.write_table(arrow, files["parquet"], compression=codec, use_dictionary=False, **plain))
            for names, which in ((DOUBLES + INTEGERS, "26 columns"), (NINE, "9 of 26 columns")):
                part = sum(made[name].nbytes for name in names) / 1e9
                what = f"read {which}, {compression}"
                doubles = [name for name in names if name in DOUBLES]
                integers = [name for name in names if name in INTEGERS]
                table.take(what, "Dolmen", part, lambda: rntuple.open(files["dolmen"]).arrays(names, library="np"))
                table.take(what, "Dolmen, ROOT's file", part, lambda: rntuple.open(files["root"]).arrays(names, library="np"))
                table.take(what, "ROOT, direct columns", part, lambda: root.dolmen_read(str(files["root"]), doubles, integers))
                table.take(what, "uproot", part, lambda: uproot.open(files["uproot"])["events"].arrays(names, library="np"))
                table.take(what, "Parquet", part, lambda: pq.read_table(files["parquet"], columns=names, use_threads=False))
    deep = nested(max(arguments.events // 4, 1))
    size = sum(ak.Array(values).nbytes for values in deep.values()) / 1e9
    rntuple.write_root(place / "nested", "events", deep, compression="none")
    for _ in range(arguments.rounds):
        what = "read nested events to awkward, none"
        table.take(what, "Dolmen", size, lambda: rntuple.open(place / "nested").arrays())
        table.take(what, "uproot, the same file", size, lambda: uproot.open(place / "nested")["events"].arrays())
    sizes = {path.name: path.stat().st_size for path in sorted(place.iterdir())}
    print(f"{count} flat events, {gigabytes:.3f} GB; {arguments.rounds} rounds; bytes of files: {sizes}")
    table.show()


def write_uproot(path, made, compression):
    with uproot.recreate(path, compression=compression) as file:
        file.mkrntuple("events", made)


if __name__ == "__main__":
    main()
