//! Bandwidth over size as a picture.

use crate::error::{Error, Result};
use plotters::prelude::{
    BLACK, BitMapBackend, ChartBuilder, Color, IntoDrawingArea, IntoLogRange, LineSeries, Palette, Palette99,
    PathElement, SeriesLabelPosition, WHITE,
};
use plotters::style::{FontStyle, register_font};
use std::path::Path;

/// Fonts that systems have, by where they have them; a picture without text is still drawn if there is none.
const FONTS: [&str; 4] = [
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
    "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf",
    "/usr/share/fonts/TTF/DejaVuSans.ttf",
];

/// One curve.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// Size in bytes, bytes a second.
    pub(crate) points: Vec<(u64, f64)>,
}

/// Draws the curves, both axes logarithmic.
pub(crate) fn bandwidth(png: &Path, lines: &[Line]) -> Result<()> {
    let has_font = load_font();
    draw(png, lines, has_font).map_err(|_drawing| Error::Plot)
}

/// Gives the drawing library the first font that is there; whether there is one.
pub fn load_font() -> bool {
    let Some(bytes) = FONTS.iter().find_map(|path| std::fs::read(path).ok()) else { return false };
    // The drawing library keeps fonts for the life of the process.
    register_font("sans-serif", FontStyle::Normal, Vec::leak(bytes)).is_ok()
}

fn draw(png: &Path, lines: &[Line], has_font: bool) -> core::result::Result<(), Box<dyn std::error::Error>> {
    let all = || lines.iter().flat_map(|line| &line.points);
    let (low, high) =
        all().fold((f64::MAX, 1.0_f64), |(low, high), point| (low.min(point.1), high.max(point.1)));
    let largest = all().map(|point| point.0 as f64).fold(1.0, f64::max);
    let root = BitMapBackend::new(png, (1200, 800)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut builder = ChartBuilder::on(&root);
    builder.margin(16);
    if has_font {
        builder.caption("one target, one thread: bandwidth over access size", ("sans-serif", 24));
        builder.x_label_area_size(48).y_label_area_size(96);
    }
    let rates = (low.max(1e3) * 0.8..high * 1.3).log_scale();
    let mut chart = builder.build_cartesian_2d((48.0..largest * 1.4).log_scale(), rates)?;
    if has_font {
        chart
            .configure_mesh()
            .x_desc("bytes")
            .y_desc("bytes a second")
            .x_label_formatter(&|bytes| crate::row::short(*bytes))
            .y_label_formatter(&|rate| crate::row::short(*rate))
            .draw()?;
    }
    for (index, line) in lines.iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        let points = line.points.iter().map(|point| (point.0 as f64, point.1));
        let series = chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
        if has_font {
            series.label(&line.name).legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour));
        }
    }
    if has_font {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .draw()?;
    }
    root.present()?;
    Ok(())
}
