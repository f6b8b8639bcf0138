//! Dates and times of texts.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use pyo3::prelude::*;

const DAY_S: i64 = 86_400;
const SECOND_US: i64 = 1_000_000;
/// Of the years 1 to 9999.
pub const SECONDS: RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
pub const DAYS: RangeInclusive<i64> = -719_162..=2_932_896;
const SLOT_S: i64 = 900;
const KNOWN_SLOTS: usize = 65_536;
/// Places of a fraction of a second that are looked at.
const PLACES: usize = 6;

#[derive(Clone, Copy, PartialEq)]
pub enum Time {
    Date,
    Timestamp,
    Local,
}

/// What a text says: the day since 1970, the time of the day in microseconds, the offset from UTC in seconds.
pub struct Written {
    day: i64,
    time_us: Option<i64>,
    offset_s: Option<i64>,
}

/// Java's pattern, as Python compiled it.
pub type Pattern = Vec<Token>;

#[derive(Clone, FromPyObject)]
pub enum Token {
    Literal(String),
    /// Java's letter, the least and the most digits.
    Field(char, usize, usize),
}

/// The local time zone: asks Python for its offset, once for each slot of local time.
#[derive(Default)]
pub struct Zone {
    ask: Option<Py<PyAny>>,
    known: HashMap<i64, Option<i64>>,
    last: Option<(i64, i64)>,
    /// What Python raised.
    pub error: Option<PyErr>,
}

impl Zone {
    pub fn of(ask: Option<Py<PyAny>>, known: HashMap<i64, Option<i64>>) -> Self {
        Self { ask, known, last: None, error: None }
    }

    pub fn known(self) -> HashMap<i64, Option<i64>> {
        self.known
    }

    fn offset_s(&mut self, local_s: i64) -> Option<i64> {
        let Some(ask) = &self.ask else { return Some(0) };
        let slot = local_s.div_euclid(SLOT_S);
        if let Some((_, offset_s)) = self.last.filter(|(known, _)| *known == slot) {
            return Some(offset_s);
        }
        let offset_s = if let Some(&known) = self.known.get(&slot) {
            known
        } else {
            let asked = Python::attach(|py| ask.call1(py, (slot,))?.extract(py));
            let found = asked.unwrap_or_else(|error| {
                self.error = Some(error);
                None
            });
            if self.known.len() >= KNOWN_SLOTS {
                self.known.clear();
            }
            self.known.insert(slot, found);
            found
        }?;
        self.last = Some((slot, offset_s));
        Some(offset_s)
    }
}

impl Written {
    pub fn of(text: &str, pattern: Option<&Pattern>) -> Option<Self> {
        let mut rest = Rest(text.as_bytes());
        let found = match pattern {
            None => rest.usual(),
            Some(pattern) => rest.by(pattern),
        }?;
        rest.0.is_empty().then_some(found)
    }

    /// Of pieces of a second since 1970, as a clock shows them. None: it is none of the years 1 to 9999.
    pub fn of_pieces(count: i64, in_a_second: i64) -> Option<Self> {
        let second = Some(count.div_euclid(in_a_second)).filter(|second| SECONDS.contains(second))?;
        let micros = i128::from(count.rem_euclid(in_a_second)) * i128::from(SECOND_US) / i128::from(in_a_second);
        let time_us = second.rem_euclid(DAY_S) * SECOND_US + i64::try_from(micros).ok()?;
        let has_clock = time_us > 0 || count % in_a_second != 0;
        Some(Self { day: second.div_euclid(DAY_S), time_us: has_clock.then_some(time_us), offset_s: None })
    }

    pub fn value(&self, kind: Time, zone: &mut Zone) -> Option<i64> {
        match kind {
            Time::Date => self.date(),
            Time::Timestamp => self.utc_us(zone),
            Time::Local => self.local_us(),
        }
    }

    /// Days since 1970.
    fn date(&self) -> Option<i64> {
        (self.time_us.is_none() && self.offset_s.is_none()).then_some(self.day)
    }

    /// Local microseconds since 1970.
    fn local_us(&self) -> Option<i64> {
        self.offset_s.is_none().then(|| self.day * DAY_S * SECOND_US + self.time_us.unwrap_or(0))
    }

    /// Microseconds since 1970 in UTC.
    fn utc_us(&self, zone: &mut Zone) -> Option<i64> {
        let time_us = self.time_us.unwrap_or(0);
        let local_s = self.day * DAY_S + time_us / SECOND_US;
        let offset_s = match self.offset_s {
            Some(offset_s) => offset_s,
            None => zone.offset_s(local_s)?,
        };
        let seconds = local_s.checked_sub(offset_s).filter(|one| SECONDS.contains(one))?;
        Some(seconds * SECOND_US + time_us % SECOND_US)
    }
}

/// What of a text is not yet read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// yyyy-[m]m-[d]d[ T][h]h:[m]m[:[s]s[.fraction]][zone]
    fn usual(&mut self) -> Option<Written> {
        let year = self.number(4, 4)?;
        self.literal(b"-")?;
        let month = self.number(1, 2)?;
        self.literal(b"-")?;
        let day = day_of(year, month, self.number(1, 2)?)?;
        if self.0.is_empty() {
            return Some(Written { day, time_us: None, offset_s: None });
        }
        self.literal(b"T").or_else(|| self.literal(b" "))?;
        let hour = self.number(1, 2)?;
        self.literal(b":")?;
        let minute = self.number(1, 2)?;
        let (mut second, mut fraction_us) = (0, 0);
        if self.literal(b":").is_some() {
            second = self.number(1, 2)?;
            if self.literal(b".").is_some() {
                fraction_us = self.fraction_us(1, 9)?;
            }
        }
        let time_us = Some(time_us_of(hour, minute, second, fraction_us)?);
        Some(Written { day, time_us, offset_s: self.zone()? })
    }

    fn by(&mut self, pattern: &Pattern) -> Option<Written> {
        let (mut date, mut time, mut fraction_us) = ([1970, 1, 1], [0; 3], 0);
        let mut has_time = false;
        for token in pattern {
            let (letter, least, most) = match token {
                Token::Literal(text) => {
                    self.literal(text.as_bytes())?;
                    continue;
                }
                Token::Field(letter, least, most) => (*letter, *least, *most),
            };
            has_time |= matches!(letter, 'H' | 'm' | 's' | 'S');
            match letter {
                'y' | 'u' => date[0] = self.number(least, most)?,
                'M' => date[1] = self.number(least, most)?,
                'd' => date[2] = self.number(least, most)?,
                'H' => time[0] = self.number(least, most)?,
                'm' => time[1] = self.number(least, most)?,
                's' => time[2] = self.number(least, most)?,
                'S' => fraction_us = self.fraction_us(least, most)?,
                _ => return None,
            }
        }
        let day = day_of(date[0], date[1], date[2])?;
        let time_us = time_us_of(time[0], time[1], time[2], fraction_us)?;
        Some(Written { day, time_us: has_time.then_some(time_us), offset_s: None })
    }

    fn digits(&mut self, least: usize, most: usize) -> Option<&[u8]> {
        let count = self.0.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at_checked(count).filter(|_| count >= least)?;
        self.0 = rest;
        Some(digits)
    }

    fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let digits = self.digits(least, most.min(9))?;
        Some(digits.iter().fold(0, |number, byte| number * 10 + i64::from(byte - b'0')))
    }

    /// What is beyond microseconds is cut.
    fn fraction_us(&mut self, least: usize, most: usize) -> Option<i64> {
        let digits = self.digits(least, most)?;
        let places = digits.iter().copied().chain(std::iter::repeat(b'0')).take(PLACES);
        Some(places.fold(0, |number, byte| number * 10 + i64::from(byte - b'0')))
    }

    fn literal(&mut self, text: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    /// The outer None is a zone that Python has to look up, or none at all.
    fn zone(&mut self) -> Option<Option<i64>> {
        if self.0.is_empty() {
            return Some(None);
        }
        let _ = self.literal(b" ");
        for name in [&b"Z"[..], b"UTC", b"GMT"] {
            if self.literal(name).is_some() {
                return Some(Some(0));
            }
        }
        let sign = if self.literal(b"-").is_some() { -1 } else { self.literal(b"+").map(|()| 1)? };
        let hours = self.number(2, 2)?;
        let (mut minutes, mut seconds) = (0, 0);
        if self.literal(b":").is_some() {
            minutes = self.number(2, 2)?;
            if self.literal(b":").is_some() {
                seconds = self.number(2, 2)?;
            }
        } else if !self.0.is_empty() {
            minutes = self.number(2, 2)?;
        }
        // Java's offsets go up to 18 hours.
        let is_usual = hours < 18 && minutes < 60 && seconds < 60;
        is_usual.then_some(Some(sign * (hours * 3600 + minutes * 60 + seconds)))
    }
}

/// Days since 1970 of a day that there is in the years 1 to 9999. The years begin in March here, so that the leap day is
/// their last.
fn day_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let most = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=9999).contains(&year) || !(1..=most).contains(&day) {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468)
}

fn time_us_of(hour: i64, minute: i64, second: i64, fraction_us: i64) -> Option<i64> {
    let is_time = hour < 24 && minute < 60 && second < 60;
    is_time.then_some(((hour * 60 + minute) * 60 + second) * SECOND_US + fraction_us)
}
