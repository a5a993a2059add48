//! Sizes on the command line.

/// A number of bytes: `4096`, `64KiB`, `64K`, `2G`, `1.5GiB`; units are powers of 1024.
///
/// # Errors
/// A text for clap to print.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err("give bytes, or a number with K, M, G or T".to_owned()),
    };
    let wrong = || "give a number of bytes, or one with a decimal of its unit as in 1.5G".to_owned();
    let (whole, tenths) = match number.split_once('.') {
        None => (number, 0),
        Some((whole, tenth)) if tenth.len() == 1 && shift > 0 => {
            (whole, tenth.parse::<u64>().map_err(|_digits| wrong())?)
        }
        Some(_) => return Err(wrong()),
    };
    let whole: u64 = whole.parse().map_err(|_digits| wrong())?;
    let bytes = whole.checked_mul(1 << shift).and_then(|bytes| bytes.checked_add((tenths << shift) / 10));
    bytes.ok_or_else(|| "larger than 16 EiB".to_owned())
}

/// A parser of sizes from `low` to `high`; what it says of others names both.
pub(crate) fn between(low: u64, high: u64) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    move |text| match parse(text)? {
        size if (low..=high).contains(&size) => Ok(size),
        size => Err(format!("{size} bytes is not from {} to {}", exact(low), exact(high))),
    }
}

/// A parser of whole numbers from `low` to `high`; what it says of anything else names both.
pub(crate) fn count<T: TryFrom<u64>>(
    low: u64,
    high: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync {
    move |text| {
        let told = text.parse::<u64>().map_err(|_no_number| ()).and_then(|number| match number {
            number if (low..=high).contains(&number) => T::try_from(number).map_err(|_too_large| ()),
            _ => Err(()),
        });
        told.map_err(|()| match high {
            u64::MAX => format!("give a whole number, {low} at least"),
            _ => format!("give a whole number from {low} to {high}"),
        })
    }
}

/// As [`between`], for sizes as DAOS's tools read them: `GB` and `G` are powers of 1000, `GiB` and `Gi` of 1024.
//= daos:src/control/lib/ui ByteSizeFlag
pub(crate) fn daos(low: u64, high: u64) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    move |text| match parse_daos(text) {
        Some(size) if (low..=high).contains(&size) => Ok(size),
        Some(size) => Err(format!("{size} bytes is not from {} to {}", exact(low), exact(high))),
        None => Err("give bytes, or a number with a unit such as GB (10^9) or GiB (2^30)".to_owned()),
    }
}

fn parse_daos(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (prefix, base) = unit.strip_suffix('i').map_or((unit, 1000_u128), |prefix| (prefix, 1024));
    let power = match prefix {
        "" if base == 1000 => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if part.len() > 9 || whole.is_empty() {
        return None;
    }
    let scale = 10_u128.pow(u32::try_from(part.len()).ok()?);
    let digits = [whole, part].concat().parse::<u128>().ok()?;
    let bytes = digits.checked_mul(base.pow(power))? / scale;
    u64::try_from(bytes).ok()
}

/// As [`between`], for sizes that are stored in 32 bits and are whole numbers of `step`.
pub(crate) fn steps(
    low: u32,
    high: u32,
    step: u32,
) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync {
    move |text| {
        let size = between(u64::from(low), u64::from(high))(text)?;
        let size = u32::try_from(size).map_err(|_large| "larger than 4 GiB".to_owned())?;
        if size.is_multiple_of(step) {
            Ok(size)
        } else {
            Err(format!("{size} bytes is not a whole number of {}", exact(u64::from(step))))
        }
    }
}

/// A size without rounding.
pub(crate) fn exact(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["", "K", "M", "G", "T"];
    let unit = (bytes.trailing_zeros() / 10).min(4);
    if bytes == 0 { "0".to_owned() } else { format!("{}{}", bytes >> (10 * unit), UNITS[unit as usize]) }
}

/// A size in few digits: without rounding where that takes no more, else rounded down.
pub(crate) fn short(bytes: u64) -> String {
    let exact = exact(bytes);
    if exact.len() <= 5 { exact } else { crate::output::human(bytes).replace(' ', "") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_size_has_few_digits() {
        assert_eq!(short(100 << 40), "100T");
        assert_eq!(short(264_212_084 << 10), "251GiB");
        assert_eq!(short((1 << 30) + 1), "1.0GiB");
    }

    #[test]
    fn units_are_binary_and_overflow_is_an_error() {
        assert_eq!(parse("64KiB"), Ok(65536));
        assert_eq!(parse("2g"), Ok(2 << 30));
        assert_eq!(parse("7"), Ok(7));
        assert_eq!(parse("1.5GiB"), Ok(3 << 29));
        assert_eq!(parse("1.5 GiB"), Ok(3 << 29));
        assert_eq!(parse("0.1k"), Ok(102));
        for wrong in ["", "K", "1X", "-1", "99999999T", "1.5", "1.55G", "1.G", ".5G", "1.5.5G", "1.5B"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn units_are_those_of_daos_where_its_tools_are_meant() {
        let read = daos(0, u64::MAX);
        for (text, bytes) in [
            ("1GB", 1_000_000_000),
            ("1G", 1_000_000_000),
            ("1GiB", 1 << 30),
            ("1 gi", 1 << 30),
            ("1.5TB", 1_500_000_000_000),
            ("1.25KiB", 1280),
            ("7", 7),
            ("7b", 7),
            ("2m", 2_000_000),
        ] {
            assert_eq!(read(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "G", "1X", "-1", "1.2.3G", "99999999999P", "1i", ".5G"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(daos(4096, 1 << 30)("1"), Err("1 bytes is not from 4K to 1G".to_owned()));
    }

    #[test]
    fn what_is_out_of_range_is_told_the_range() {
        let number = count::<u16>(2, 256);
        assert_eq!([number("2"), number("256")], [Ok(2), Ok(256)]);
        for wrong in ["1", "257", "70000", "-3", "x", ""] {
            assert_eq!(number(wrong), Err("give a whole number from 2 to 256".to_owned()), "{wrong}");
        }
        assert_eq!(count::<u64>(1, u64::MAX)("0"), Err("give a whole number, 1 at least".to_owned()));
        assert_eq!(between(4096, 1 << 30)("1M"), Ok(1 << 20));
        assert_eq!(between(4096, 1 << 30)("1"), Err("1 bytes is not from 4K to 1G".to_owned()));
        assert_eq!(
            steps(16 << 10, 1 << 30, 4096)("17000"),
            Err("17000 bytes is not a whole number of 4K".to_owned())
        );
        assert_eq!(exact(1500), "1500");
    }
}
