//! Passes the pages of an ntuple to a file of ROOT of its own: `pass FILE NTUPLE OUT`.

use dolmen_rntuple::Ntuple;
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::rootfile::{FileOptions, FileTime, RootFile, export};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, file, name, out] = &arguments[..] else {
        return Err("usage: pass FILE NTUPLE OUT".into());
    };
    let mut source = RootFile::open(Path::new(file))?;
    let anchor = source.anchor(name)?;
    let ntuple = Ntuple::open(source, &anchor)?;
    let options = FileOptions { time: FileTime::of_unix(1_750_000_000), compression: Compression::Zstd(5) };
    export(&ntuple, Path::new(out), options, |entries| eprintln!("{entries} entries"))?;
    Ok(())
}
