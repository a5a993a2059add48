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
    /// Seconds to read it.
    pub(super) seconds: f64,
}

/// Draws the fields, one below the other. The picture has its name when it is whole.
pub(super) fn draw(png: &Path, ntuple: &str, bars: &[Bar]) -> Outcome<()> {
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

fn drawn(png: &Path, ntuple: &str, bars: &[Bar]) -> Outcome<()> {
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
    ntuple: &str,
    bars: &[Bar],
    has_font: bool,
) -> Painted {
    area.fill(&WHITE)?;
    let text = |size: i32| -> TextStyle<'_> { ("sans-serif", size).into_font().color(&BLACK) };
    let most = bars.iter().map(|bar| bar.stored_bytes.max(bar.memory_bytes)).max().unwrap_or(1).max(1);
    let length = |bytes: u64| (bytes as f64 / most as f64 * LONGEST).ceil() as i32;
    if has_font {
        let title = format!(
            "{ntuple}: bytes of fields, stored (dark) and in memory (light), and seconds to read each"
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
            let name: String = bar.name.chars().take(48).collect();
            area.draw(&Text::new(name, (16, top + 3), text(14)))?;
            let told = format!("{}, {:.3} s", crate::output::human(bar.stored_bytes), bar.seconds);
            area.draw(&Text::new(told, (LEFT + LONGEST as i32 + 20, top + 3), text(14)))?;
        }
    }
    area.present()?;
    Ok(())
}
