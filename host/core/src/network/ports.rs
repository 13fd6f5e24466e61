//! Ports of services that may interpret an HTTP request as commands of their own protocol.

/// Ports that are blocked by default, in order: those of DESIGN section 8, the blocked ports of the Fetch Standard
/// (section 2.9, "port blocking"), those of Redis and memcached, which execute lines of HTTP requests as commands, and those
/// of NATS.
pub const BLOCKED_PORTS: &[u16] = &[
    1,     // tcpmux
    7,     // echo
    9,     // discard
    11,    // systat
    13,    // daytime
    15,    // netstat
    17,    // qotd
    19,    // chargen
    20,    // ftp-data
    21,    // ftp
    22,    // ssh (DESIGN)
    23,    // telnet (DESIGN)
    25,    // smtp (DESIGN)
    37,    // time
    42,    // name
    43,    // nicname
    53,    // domain
    69,    // tftp
    77,    // priv-rjs
    79,    // finger
    87,    // ttylink
    95,    // supdup
    101,   // hostname
    102,   // iso-tsap
    103,   // gppitnp
    104,   // acr-nema
    109,   // pop2
    110,   // pop3
    111,   // sunrpc
    113,   // auth
    115,   // sftp
    117,   // uucp-path
    119,   // nntp
    123,   // ntp
    135,   // epmap
    137,   // netbios-ns
    139,   // netbios-ssn
    143,   // imap
    161,   // snmp
    179,   // bgp
    389,   // ldap
    427,   // svrloc
    465,   // submissions
    512,   // exec
    513,   // login
    514,   // shell
    515,   // printer
    526,   // tempo
    530,   // courier
    531,   // chat
    532,   // netnews
    540,   // uucp
    548,   // afp
    554,   // rtsp
    556,   // remotefs
    563,   // nntps
    587,   // submission
    601,   // syslog-conn
    636,   // ldaps
    989,   // ftps-data
    990,   // ftps
    993,   // imaps
    995,   // pop3s
    1719,  // h323gatestat
    1720,  // h323hostcall
    1723,  // pptp
    2049,  // nfs
    3389,  // rdp (DESIGN)
    3659,  // apple-sasl
    4045,  // npp
    4190,  // sieve
    4222,  // nats: the servers of a cluster
    5060,  // sip
    5061,  // sips
    6000,  // x11
    6222,  // nats: routes
    6379,  // redis: a line of a request is a command
    6566,  // sane-port
    6665,  // irc
    6666,  // irc
    6667,  // irc
    6668,  // irc
    6669,  // irc
    6679,  // osaut
    6697,  // ircs-u
    8222,  // nats: monitoring, which lists connections and subjects without a password
    10080, // amanda
    11211, // memcached: a line of a request is a command
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocked_ports_are_sorted_and_omit_web_ports() {
        assert!(BLOCKED_PORTS.is_sorted_by(|one, next| one < next));
        for port in [22, 23, 25, 3389] {
            assert!(BLOCKED_PORTS.contains(&port), "{port}");
        }
        for port in [80, 443, 3000, 8000, 8080, 8443] {
            assert!(!BLOCKED_PORTS.contains(&port), "{port}");
        }
    }
}
