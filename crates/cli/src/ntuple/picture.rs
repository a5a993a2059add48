//! Fields as bars: what each takes, stored and in memory, and how long reading it is.

use crate::failure::{Exit, Failure, Outcome};
use plotters::prelude::{
    BLACK, BitMapBackend, Color, DrawingArea, IntoDrawingArea, IntoFont, RGBColor, Rectangle, Text, WHITE,
};
use plotters::style::TextStyle;
use std::path::Path;

const WIDTH: u32 = 1400;
/// Pixels of a field, and above the first.
const ROW: i32 = 22;
const HEAD: i32 = 64;
/// Where bars begin, and how long the longest may be.
const LEFT: i32 = 420;
const LONGEST: f64 = 640.0;

const STORED: RGBColor = RGBColor(38, 96, 160);
const MEMORY: RGBColor = RGBColor(190, 208, 228);

/// A field.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) stored_bytes: u64,
    pub(super) memory_bytes: u64,
    /// What stands behind it: its bytes and what it takes to read it.
    pub(super) told: String,
}

/// Draws the fields of an ntuple, one below the other; it is told beside its name whether reading costs money. The picture has its name when it is whole.
pub(super) fn draw(png: &Path, ntuple: (&str, bool), bars: &[Bar]) -> Outcome<()> {
    let Some(name) = png.file_name() else {
        let error = std::io::Error::from(std::io::ErrorKind::IsADirectory);
        return Err(Failure::on_file(png, &error));
    };
    // The drawing library takes the kind of a picture from the end of its name.
    let part = png.with_file_name(format!(".{}.{}.png", name.to_string_lossy(), std::process::id()));
    // Whether it can be written is told better by the system than by the drawing library.
    let done = std::fs::File::create(&part)
        .map_err(|error| Failure::on_file(png, &error))
        .and_then(|_file| drawn(&part, ntuple, bars))
        .and_then(|()| std::fs::rename(&part, png).map_err(|error| Failure::on_file(png, &error)));
    if done.is_err() {
        // Ignored: why there is no picture is told.
        let _removed = std::fs::remove_file(&part);
    }
    done
}

fn drawn(png: &Path, ntuple: (&str, bool), bars: &[Bar]) -> Outcome<()> {
    let rows = i32::try_from(bars.len()).expect("so few are drawn");
    let height = u32::try_from(HEAD + rows * ROW + 16).expect("it is above zero");
    let area = BitMapBackend::new(png, (WIDTH, height)).into_drawing_area();
    let has_font = dolmen_bench::load_font();
    paint(&area, ntuple, bars, has_font).map_err(|error| {
        let failure = Failure::new(Exit::Device, "the picture could not be written");
        failure.hint(format!("{error}"))
    })
}

type Painted = Result<(), Box<dyn std::error::Error>>;

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "pixels of a picture")]
fn paint(
    area: &DrawingArea<BitMapBackend<'_>, plotters::coord::Shift>,
    (ntuple, has_prices): (&str, bool),
    bars: &[Bar],
    has_font: bool,
) -> Painted {
    area.fill(&WHITE)?;
    let text = |size: i32| -> TextStyle<'_> { ("sans-serif", size).into_font().color(&BLACK) };
    let most = bars.iter().map(|bar| bar.stored_bytes.max(bar.memory_bytes)).max().unwrap_or(1).max(1);
    let length = |bytes: u64| (bytes as f64 / most as f64 * LONGEST).ceil() as i32;
    if has_font {
        let costs = if has_prices { "seconds and money" } else { "seconds" };
        let title = format!(
            "{ntuple}: bytes of fields, stored (dark) and in memory (light), and {costs} to read each"
        );
        area.draw(&Text::new(title, (16, 16), text(20)))?;
    }
    for (at, bar) in (0_i32..).zip(bars) {
        let top = HEAD + at * ROW;
        let rectangle = |bytes, from, to| {
            Rectangle::new([(LEFT, top + from), (LEFT + length(bytes), top + to)], Color::filled(&MEMORY))
        };
        area.draw(&rectangle(bar.memory_bytes, 2, ROW - 4))?;
        let stored = [(LEFT, top + 6), (LEFT + length(bar.stored_bytes), top + ROW - 8)];
        area.draw(&Rectangle::new(stored, STORED.filled()))?;
        if has_font {
            area.draw(&Text::new(shortened(&bar.name), (16, top + 3), text(14)))?;
            area.draw(&Text::new(bar.told.as_str(), (LEFT + LONGEST as i32 + 20, top + 3), text(14)))?;
        }
    }
    area.present()?;
    Ok(())
}

/// Characters of a name that have room beside its bar.
const NAME_MAX: usize = 48;

/// A name for which there is room: of a long one beginning and end, by which names are told apart.
fn shortened(name: &str) -> String {
    let all: Vec<char> = name.chars().collect();
    if all.len() <= NAME_MAX {
        return name.to_owned();
    }
    let (before, behind) = (NAME_MAX / 2, NAME_MAX - NAME_MAX / 2 - 1);
    all[..before].iter().chain(&['…']).chain(&all[all.len() - behind..]).collect()
}

#[cfg(test)]
mod tests {
    use super::{NAME_MAX, shortened};

    #[test]
    fn long_names_are_told_apart_by_their_ends_and_show_that_they_are_cut() {
        let fits = "x".repeat(NAME_MAX);
        assert_eq!(shortened(&fits), fits);
        let long = |end| format!("AnalysisMuonsAuxDyn_{}_{end}", "isolation".repeat(6));
        let [pt, eta] = ["pt", "eta"].map(|end| shortened(&long(end)));
        assert_eq!((pt.chars().count(), pt.chars().filter(|&of| of == '…').count()), (NAME_MAX, 1));
        assert!(pt.starts_with("AnalysisMuonsAuxDyn_") && pt.ends_with("_pt") && eta.ends_with("_eta"));
        assert_eq!(shortened(&"ä".repeat(60)).chars().count(), NAME_MAX);
    }
}
