//! Reads an ntuple of a file of ROOT, decodes all of it, and writes it anew: `rewrite FILE NTUPLE OUT [SETTINGS]`, the settings being the
//! number of a compression: 0 none, 101 zlib, 207 LZMA, 401 LZ4, 505 zstd.

use dolmen_rntuple::format::Header;
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::schema::Schema;
use dolmen_rntuple::rootfile::{FileOptions, FileTime, RootFile, RootWriter};
use dolmen_rntuple::write::{self, Options};
use dolmen_rntuple::{Array, Entries, Ntuple};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, file, name, out, settings @ ..] = &arguments[..] else {
        return Err("usage: rewrite FILE NTUPLE OUT [SETTINGS]".into());
    };
    let settings = settings.first().map_or(Ok(505), |settings| settings.parse())?;
    let compression = Compression::of(settings).ok_or("there is no such compression")?;
    let mut source = RootFile::open(Path::new(file))?;
    let anchor = source.anchor(name)?;
    let ntuple = Ntuple::open(source, &anchor)?;
    let numbers: Vec<u32> = ntuple.top_fields().collect();
    let arrays = ntuple.read(&numbers, Entries { first: 0, end: ntuple.entry_count() })?;
    let names = numbers.iter().map(|&number| &*ntuple.header().schema.fields[number as usize].name);
    let fields: Vec<(&str, &Array)> = names.zip(&arrays).collect();
    let mut schema = Schema::default();
    write::schema(&mut schema, &fields, compression)?;
    let options = Options { compression, ..Options::default() };
    let header = Header {
        name: name.as_str().into(),
        description: "".into(),
        writer: "Dolmen".into(),
        schema,
        checksum: 0,
    };
    let known = header.schema.known();
    let time = FileTime::of_unix(1_750_000_000);
    let mut writer = RootWriter::create(Path::new(out), header, known, FileOptions { time, compression })?;
    for entries in write::cut(&fields, &options)? {
        let cluster = write::seal(&writer.header().schema.clone(), &fields, entries, &options)?;
        writer.append(&cluster)?;
    }
    Ok(writer.finish()?)
}
