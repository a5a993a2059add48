//! Sizes on the command line.

/// A number of bytes: `4096`, `64KiB`, `64K`, `2G`; units are powers of 1024.
///
/// # Errors
/// A text for clap to print.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err("give bytes, or a number with K, M, G or T".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_digits| "give a number of bytes".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "larger than 16 EiB".to_owned())
}

/// As [`parse`], for sizes that are stored in 32 bits.
///
/// # Errors
/// A text for clap to print.
pub(crate) fn parse_u32(text: &str) -> Result<u32, String> {
    u32::try_from(parse(text)?).map_err(|_large| "larger than 4 GiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_binary_and_overflow_is_an_error() {
        assert_eq!(parse("64KiB"), Ok(65536));
        assert_eq!(parse("2g"), Ok(2 << 30));
        assert_eq!(parse("7"), Ok(7));
        for wrong in ["", "K", "1X", "-1", "99999999T"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse_u32("4G").is_err());
    }
}
