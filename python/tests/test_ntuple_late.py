"""Fields that ROOT adds after the first entries, through all that a store does with them: what is exported then ROOT and uproot read."""

import json
import subprocess
import sys
import textwrap

import awkward as ak
import dolmen
import pytest
import uproot
from dolmen import rntuple

#: Writes a file with fields that begin at two entries, in clusters of so many, with ROOT alone in its process.
WITH_ROOT = textwrap.dedent(
    r"""
    import sys, ROOT
    ROOT.gInterpreter.Declare('''
    #include <ROOT/RField.hxx>
    #include <ROOT/RNTupleModel.hxx>
    #include <ROOT/RNTupleWriter.hxx>
    #include <ROOT/RNTupleWriteOptions.hxx>
    #include <optional>
    using namespace ROOT;
    void write(const char *path, int entries, int of_cluster, int first, int second) {
      auto model = RNTupleModel::Create();
      auto number = model->MakeField<int>("number");
      auto list = model->MakeField<std::vector<float>>("list");
      model->AddProjectedField(RFieldBase::Create("shown", "std::vector<float>").Unwrap(),
                               [](const std::string &of) { return of == "shown" ? "list" : "list._0"; });
      model->AddProjectedField(std::make_unique<RField<RNTupleCardinality<std::uint32_t>>>("count"),
                               [](const std::string &) { return "list"; });
      RNTupleWriteOptions options;
      options.SetInitialUnzippedPageSize(64); options.SetMaxUnzippedPageSize(128);
      auto writer = RNTupleWriter::Recreate(std::move(model), "events", path, options);
      std::shared_ptr<int> flat; std::shared_ptr<std::vector<int>> items; std::shared_ptr<std::string> text;
      std::shared_ptr<std::array<short, 3>> array;
      std::shared_ptr<std::optional<float>> maybe; std::shared_ptr<std::pair<int, std::vector<double>>> pair;
      for (int at = 0; at < entries; ++at) {
        if (at == first) {
          auto updater = writer->CreateModelUpdater();
          updater->BeginUpdate();
          flat = updater->MakeField<int>("flat"); items = updater->MakeField<std::vector<int>>("items");
          text = updater->MakeField<std::string>("text"); array = updater->MakeField<std::array<short, 3>>("array");
          updater->CommitUpdate();
        }
        if (at == second) {
          auto updater = writer->CreateModelUpdater();
          updater->BeginUpdate();
          maybe = updater->MakeField<std::optional<float>>("maybe");
          pair = updater->MakeField<std::pair<int, std::vector<double>>>("pair");
          updater->CommitUpdate();
        }
        *number = at; list->assign(at % 4, at + .5f);
        if (flat) { *flat = -at - 1; items->assign(at * 7 % 3, at); *text = std::to_string(at); array->fill(at); }
        if (maybe) {
          if (at % 2) *maybe = at; else maybe->reset();
          pair->first = at; pair->second.assign(at % 3, at / 3.);
        }
        writer->Fill();
        if (at % of_cluster == of_cluster - 1) writer->CommitCluster();
      }
    }
    ''')
    for path, *numbers in __import__("json").loads(sys.argv[1]):
        ROOT.write(path, *numbers)
    """
)

#: Reads fields of files with ROOT alone in its process, and writes what it has read.
BY_ROOT = textwrap.dedent(
    r"""
    import json, sys, ROOT
    ROOT.gInterpreter.Declare('''
    #include <ROOT/RNTupleReader.hxx>
    #include <sstream>
    using Count = ROOT::RNTupleCardinality<std::uint32_t>;
    void put(std::ostream &to, int value) { to << value; }
    void put(std::ostream &to, const Count &value) { to << static_cast<std::uint32_t>(value); }
    void put(std::ostream &to, const std::string &value) { to << '"' << value << '"'; }
    template <class T> void put(std::ostream &to, const T &values) {
      const char *before = "[";
      for (const auto &value : values) { to << before << value; before = ", "; }
      to << (values.empty() ? "[]" : "]");
    }
    template <class T> void column(std::ostream &to, ROOT::RNTupleReader &reader, const char *name) {
      for (const auto &field : reader.GetDescriptor().GetTopLevelFields()) {
        if (field.GetFieldName() != name) continue;
        auto view = reader.GetView<T>(name);
        to << '"' << name << '"' << ": [";
        for (auto at : reader) { to << (at == 0 ? "" : ", "); put(to, view(at)); }
        to << "], ";
      }
    }
    std::string read(const char *path) {
      auto reader = ROOT::RNTupleReader::Open("events", path);
      std::ostringstream to;
      to << "{";
      column<int>(to, *reader, "number"); column<int>(to, *reader, "flat"); column<std::string>(to, *reader, "text");
      column<std::vector<int>>(to, *reader, "items"); column<std::array<short, 3>>(to, *reader, "array");
      column<std::vector<float>>(to, *reader, "shown"); column<Count>(to, *reader, "count");
      to << "\\"entries\\": " << reader->GetNEntries() << "}";
      return to.str();
    }
    ''')
    print(json.dumps({path: json.loads(str(ROOT.read(path))) for path in json.loads(sys.argv[1])}))
    """
)

#: Entries, entries of a cluster, and where fields begin: in the midst of a cluster, with one, in one alone, and not at all any more.
SHAPES = {"midst": (22, 5, 8, 12), "with": (20, 5, 10, 15), "one": (12, 12, 4, 4), "end": (9, 35, 3, 7)}


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    folder = tmp_path_factory.mktemp("late")
    files = {name: str(folder / f"{name}.root") for name in SHAPES}
    words = json.dumps([[files[name], *shape] for name, shape in SHAPES.items()])
    subprocess.run([sys.executable, "-c", WITH_ROOT, words], check=True, timeout=300)
    return files


def truth(shape, times=1):
    """What entries have, so many times one behind the other."""
    entries, _, first, second = shape
    one = {
        "number": [at for at in range(entries)],
        "list": [[at + 0.5] * (at % 4) for at in range(entries)],
        "flat": [-at - 1 if at >= first else 0 for at in range(entries)],
        "items": [[at] * (at * 7 % 3) if at >= first else [] for at in range(entries)],
        "text": [str(at) if at >= first else "" for at in range(entries)],
        "array": [[at] * 3 if at >= first else [0] * 3 for at in range(entries)],
        "maybe": [float(at) if at >= second and at % 2 else None for at in range(entries)],
        "pair": [(at, [at / 3] * (at % 3)) if at >= second else (0, []) for at in range(entries)],
    }
    one["shown"], one["count"] = one["list"], [len(items) for items in one["list"]]
    return {name: values * times for name, values in one.items()}


class Checked:
    """Stored ntuples that are compared with what they are to have, by Dolmen, and as files by uproot and ROOT."""

    def __init__(self, folder):
        self.folder, self.wanted = folder, {}

    def add(self, ntuple, wanted):
        path = str(self.folder / f"{len(self.wanted)}.root")
        ntuple.export_root(path)
        for name in ntuple.keys():
            assert ak.to_list(ntuple[name]) == wanted[name], name
        theirs = uproot.open(path)["events"]
        for name in ntuple.keys():
            assert ak.to_list(theirs[name].array()) == wanted[name], name
        self.wanted[path] = wanted

    def by_root(self):
        done = subprocess.run(
            [sys.executable, "-c", BY_ROOT, json.dumps(list(self.wanted))], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        for path, found in json.loads(done.stdout).items():
            assert found.pop("entries") == len(self.wanted[path]["number"]) and found, path
            for name, values in found.items():
                assert values == self.wanted[path][name], (path, name)


@pytest.mark.parametrize("shape", SHAPES)
def test_fields_that_begin_later_are_what_they_were_whatever_is_done_with_them(late, tmp_path, local, shape):
    path, wanted = late[shape], truth(SHAPES[shape])
    count, checked, pool = len(wanted["number"]), Checked(tmp_path), local.open()

    def store(name):
        return rntuple.Store(pool.create_container(f"{shape}-{name}", durability="process"))

    stored = store("plain").import_root(path)
    checked.add(stored.open(), wanted)
    # A field that shows another, alone, is a column of its own behind those that begin later.
    other = store("shown")
    whole = other.import_root(path, name="whole")
    checked.add(other.clone(whole, "events", ["shown", "flat", "text"]).open(), wanted)
    # Clusters of other sizes, some of which end before a field begins.
    for at, how in enumerate(({"cluster_bytes": 300}, {"cluster_bytes": 30, "page_bytes": 8, "step_bytes": 1})):
        reshaped = store(f"reshaped-{at}").import_root(path)
        reshaped.reshape(**how)
        checked.add(reshaped.open(), wanted)
        again = store(f"skimmed-{at}").skim(reshaped.open(), "events", ["flat", "items", "text", "maybe", "number"])
        checked.add(again.open(), wanted)
    # What is behind others begins with what it has for the entries before: zeros and nothing.
    stored.append(path)
    stored.append(stored.open())
    four = truth(SHAPES[shape], 4)
    checked.add(stored.open(), four)
    for fields in (["array", "pair", "number"], ["flat", "items", "text", "maybe"]):
        skimmed = store(f"after-{fields[0]}").skim(stored.open(), "events", fields)
        assert skimmed.scrub().bad == []
        checked.add(skimmed.open(), four)
        for start, stop in ((count, 2 * count), (count - 1, 3 * count + 1)):
            some = {name: values[start:stop] for name, values in four.items()}
            part = store(f"{fields[0]}-{start}").skim(stored.open(), "events", fields, start, stop)
            checked.add(part.open(), some)
    stored.reshape(cluster_bytes=200)
    checked.add(stored.open(), four)
    pool.close()
    checked.by_root()


def test_fields_that_show_others_are_stored_alone_and_are_appended_to(late, tmp_path, local):
    path, wanted = late["midst"], truth(SHAPES["midst"])
    pool = local.open()
    store, checked = rntuple.Store(pool.create_container("shown")), Checked(tmp_path)
    file, stored = rntuple.open(path), store.import_root(path, name="whole")
    many = [at for at, count in enumerate(wanted["count"]) if count > 1]
    for name, made in (
        ("skimmed", lambda: rntuple.Store(pool.create_container("skimmed")).skim(file, "events", ["count"], filter=[("count", ">", 1)])),
        ("cloned", lambda: store.clone(stored, "events", ["count", "shown"])),
    ):
        made = made()
        some = {of: [wanted[of][at] for at in many] if name == "skimmed" else wanted[of] for of in made.open().keys()}
        checked.add(made.open(), {**some, "number": some["count"]})
        made.reshape(page_bytes=8, cluster_bytes=40)
        checked.add(made.open(), {**some, "number": some["count"]})
        made.append(path, leave_out=True)
        twice = {of: values + wanted[of] for of, values in some.items()}
        checked.add(made.open(), {**twice, "number": twice["count"]})
        made.append({of: wanted[of] for of in some})
        assert {of: ak.to_list(made.open()[of]) for of in some} == {of: twice[of] + wanted[of] for of in some}
    with pytest.raises(dolmen.Invalid, match='"shown" is not stored, since that shows another field: leave it out'):
        store.clone(stored, "few", ["number", "list", "shown"]).append({of: wanted[of] for of in ("number", "list", "shown")})
    pool.close()
    checked.by_root()
