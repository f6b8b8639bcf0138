//! What orders changes: the database's time, and the place in its log. `tubeclient.records.log_places` has the facts; here
//! are MySQL's and PostgreSQL's.

use crate::cells::{Cells, Column};
use crate::json::{Fields, Json, Node};

/// `source.snapshot` of a row that a snapshot read.
const READ: [&str; 6] = ["true", "first", "first_in_data_collection", "last_in_data_collection", "last", "incremental"];
/// Fields of other databases' places.
const OTHERS: [&str; 3] = ["scn", "commit_lsn", "commit_ts"];
/// How the names of binary logs begin.
const BINLOG: &str = "binlog ";
const UUID_CHARACTERS: usize = 36;
const MOST_DIGITS: usize = 18;

pub struct Order {
    time: Option<i64>,
    log: Option<String>,
    position: Vec<i64>,
}

impl Order {
    pub fn put(&self, sequence: &mut Column, number: i32) -> Option<()> {
        let Cells::Struct(all) = &mut sequence.cells else { return None };
        let [time, log, position, round, place, row] = all.columns.as_mut_slice() else { return None };
        time.put_whole(self.time)?;
        log.put_text(self.log.as_deref())?;
        position.put_list(Some(&self.position), |numbers, one| numbers.put_whole(Some(*one)))?;
        round.nothing();
        place.nothing();
        row.put_whole(Some(number.into()))?;
        sequence.present.push(true);
        Some(())
    }
}

/// The order of a message of Canal's.
pub fn of_canal(message: &Fields<'_>) -> Option<Order> {
    let (mut log, mut position) = (Some("canal".to_owned()), Vec::new());
    if let Some((of, number)) = gtid_place(&message.text("gtid")?)? {
        (log, position) = (Some(of), vec![number]);
    }
    position.extend(message.number("ts")?);
    position.extend(message.number("id")?);
    Some(Order { time: message.number("es")?, log: log.filter(|_| !position.is_empty()), position })
}

/// The order of an event of Debezium's.
pub fn of_debezium(event: &Fields<'_>, source: &Fields<'_>, operation: &str) -> Option<Order> {
    let is_read = operation == "snapshot" || operation == "insert" && READ.contains(&&*source.text("snapshot")?);
    let time = match source.number("ts_ms")? {
        _ if is_read => None,
        None => event.number("ts_ms")?,
        known => known,
    };
    if source.is_empty() {
        return Some(Order { time, log: None, position: Vec::new() });
    }
    if OTHERS.iter().any(|name| source.raw(name).is_some()) {
        return None;
    }
    let log = joined(&[&source.text("connector")?, &source.text("name")?]);
    if log.is_empty() {
        return None;
    }
    if let Some(pos) = source.number("pos")? {
        return of_binlog(event, source, time, &log, pos);
    }
    let sequence = source.raw("sequence").map_or(Some((None, None)), |_| of_sequence(&source.text("sequence")?))?;
    let mut position = Vec::new();
    if let Some(lsn) = source.number("lsn")?.or(sequence.1) {
        let commit = sequence.0;
        position = if is_read { vec![commit.unwrap_or(0), 0, lsn] } else { vec![commit.unwrap_or(lsn), 1, lsn] };
    }
    Some(Order { time, log: Some(log), position })
}

fn of_binlog(event: &Fields<'_>, source: &Fields<'_>, time: Option<i64>, log: &str, pos: i64) -> Option<Order> {
    let mut within = vec![pos];
    if let Some(transaction) = event.raw("transaction") {
        within.extend(Fields::of(transaction)?.number("total_order")?);
    }
    let at = |number| [vec![number], within].concat();
    if let Some((of, number)) = gtid_place(&source.text("gtid")?)? {
        return Some(Order { time, log: Some(of), position: at(number) });
    }
    let file = source.text("file")?;
    let (base, number) = file.rsplit_once('.')?;
    let number = digits(number)?;
    let server = source.text("server_id")?;
    let log = (server != "0").then(|| BINLOG.to_owned() + &joined(&[log, &server, base]));
    (!base.contains('\n')).then_some(Order { time, log, position: at(number) })
}

/// The log and the number of a transaction's id. The outer None is one that is not usual.
fn gtid_place(gtid: &str) -> Option<Option<(String, i64)>> {
    if gtid.is_empty() {
        return Some(None);
    }
    if let Some((uuid, number)) = gtid.split_once(':') {
        let is_usual =
            uuid.len() == UUID_CHARACTERS && uuid.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
        return is_usual.then_some(Some((format!("{BINLOG}{}", uuid.to_ascii_lowercase()), digits(number)?)));
    }
    // MariaDB's: domain, server, number.
    let (domain, rest) = gtid.split_once('-')?;
    let (server, number) = rest.split_once('-')?;
    let is_usual = [domain, server].into_iter().all(|one| one.len() <= 10 && digits(one).is_some());
    is_usual.then_some(Some((format!("domain {domain}"), digits(number)?)))
}

/// PostgreSQL's `sequence`, as in `["24023119","24023128"]`: the last commit, and the place itself.
fn of_sequence(text: &str) -> Option<(Option<i64>, Option<i64>)> {
    let (mut json, mut found) = (Json::of(text), Vec::new());
    json.list(|json| {
        found.push(match json.node()? {
            Node::Null => None,
            Node::Text(text) => Some(digits(&text)?),
            _ => return None,
        });
        Some(())
    })?;
    json.end()?;
    match found.as_slice() {
        &[commit, lsn] => Some((commit, lsn)),
        _ => None,
    }
}

fn digits(text: &str) -> Option<i64> {
    let is_usual = (1..=MOST_DIGITS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_usual.then(|| text.parse().ok())?
}

fn joined(parts: &[&str]) -> String {
    parts.iter().copied().filter(|one| !one.is_empty()).collect::<Vec<_>>().join("/")
}
