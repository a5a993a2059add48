//! The date of an answer, as HTTP writes it (`Sun, 06 Nov 1994 08:49:37 GMT`), and as lists do (`1994-11-06T08:49:37.000Z`).

const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";

/// Nanoseconds since 1970; none of what is no date.
pub(crate) fn unix_ns(date: &str) -> Option<u64> {
    let (_, date) = date.split_once(", ")?;
    let mut parts = date.split(' ');
    let mut next = || parts.next();
    let (day, month, year) = (number(next()?, 2)?, next()?, number(next()?, 4)?);
    let (time, zone) = (next()?, next()?);
    let month = MONTHS.find(month).filter(|at| month.len() == 3 && at % 3 == 0)? as u64 / 3 + 1;
    if zone != "GMT" || parts.next().is_some() { None } else { since_1970([year, month, day], time) }
}

/// The same, of a time as lists have it; what is less than a second is left out.
pub(crate) fn iso_ns(time: &str) -> Option<u64> {
    let (date, time) = time.strip_suffix('Z')?.split_once('T')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = date.split('-');
    let mut next = |count| number(parts.next()?, count);
    let date = [next(4)?, next(2)?, next(2)?];
    let is_right = parts.next().is_none() && number(fraction, fraction.len().clamp(1, 9)).is_some();
    if is_right { since_1970(date, time) } else { None }
}

fn since_1970([year, month, day]: [u64; 3], time: &str) -> Option<u64> {
    let mut clock = time.split(':').map(|part| number(part, 2));
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day) && year >= 1970;
    if !is_date || hour >= 24 || minute >= 60 || second > 60 || clock.next().is_some() {
        return None;
    }
    // Years that begin with March, so that a leap day is the last of one.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year;
    // From the first of March of the year 0 to 1970.
    let days = days.checked_sub(719_468)?;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000)
}

fn number(digits: &str, count: usize) -> Option<u64> {
    let is_right = digits.len() == count && digits.bytes().all(|digit| digit.is_ascii_digit());
    if is_right { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::{iso_ns, unix_ns};

    #[test]
    fn times_of_lists_are_times_and_what_is_none_is_none() {
        for time in ["1994-11-06T08:49:37Z", "1994-11-06T08:49:37.123Z", "1994-11-06T08:49:37.123456789Z"] {
            assert_eq!(iso_ns(time), Some(784_111_777_000_000_000), "{time}");
        }
        for time in [
            "",
            "1994-11-06",
            "1994-11-06T08:49:37",
            "1994-11-06T08:49:37.Z",
            "1994-11-06T08:49:37.1x",
            "1994-11-06T08:49:37.0000000001Z",
            "1994-13-06T08:49:37Z",
            "1994-00-06T08:49:37Z",
            "1994-11-32T08:49:37Z",
            "1994-11-06-01T08:49:37Z",
            "1969-11-06T08:49:37Z",
        ] {
            assert_eq!(iso_ns(time), None, "{time}");
        }
    }

    #[test]
    fn dates_are_times_and_what_is_no_date_is_none() {
        for (date, wanted_s) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Tue, 29 Feb 2000 23:59:59 GMT", 951_868_799),
            ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800),
            ("Fri, 27 Nov 2026 15:16:02 GMT", 1_795_792_562),
            ("Mon, 01 Mar 2100 00:00:00 GMT", 4_107_542_400),
        ] {
            assert_eq!(unix_ns(date), Some(wanted_s * 1_000_000_000), "{date}");
        }
        for date in [
            "",
            "now",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 anF 1994 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Nov 1994 08:49:37:00 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT GMT",
            "Sun, 06 Nov +994 08:49:37 GMT",
        ] {
            assert_eq!(unix_ns(date), None, "{date}");
        }
    }
}
