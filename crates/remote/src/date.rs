//! The date of an answer, as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.

const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";

/// Nanoseconds since 1970; none of what is no date.
pub(crate) fn unix_ns(date: &str) -> Option<u64> {
    let (_, date) = date.split_once(", ")?;
    let mut parts = date.split(' ');
    let mut next = || parts.next();
    let (day, month, year) = (number(next()?, 2)?, next()?, number(next()?, 4)?);
    let (time, zone) = (next()?, next()?);
    let month = MONTHS.find(month).filter(|at| month.len() == 3 && at % 3 == 0)? as u64 / 3 + 1;
    let mut clock = time.split(':').map(|part| number(part, 2));
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let is_right = zone == "GMT" && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    if !is_right || year < 1970 || clock.next().is_some() || parts.next().is_some() {
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
    use super::unix_ns;

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
