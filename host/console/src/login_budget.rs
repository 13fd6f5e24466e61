//! Limit on attempts to log in, by client, so that a client that tries often does not keep others from logging in.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use parking_lot::Mutex;

use crate::limits::ConsoleLimits;
use crate::login_record::{LoginClient, client_address};
use crate::rate::RequestBudget;

/// Maximum number of clients whose attempts are counted separately. All others share one budget.
const CLIENTS_MAX: usize = 4096;

/// Network from which an attempt comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct LoginOrigin {
    /// Network of the connection: that of a reverse proxy, if there is one.
    pub(crate) connection: Option<IpAddr>,
    /// Network that a reverse proxy names. A client without a proxy can name any, so that it only divides the attempts of
    /// one connection's network.
    forwarded_for: Option<IpAddr>,
}

impl LoginOrigin {
    pub(crate) fn of_client(client: &LoginClient) -> Self {
        Self {
            connection: client.address.map(network_of),
            forwarded_for: client.forwarded_for.map(network_of),
        }
    }
}

/// Returns the network in which one client can choose its address freely.
fn network_of(address: IpAddr) -> IpAddr {
    match client_address(address) {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
    }
}

/// The attempts that each client has left.
pub(crate) struct LoginBudgets {
    clients: Mutex<HashMap<LoginOrigin, RequestBudget>>,
    /// Attempts per second of a connection's network.
    connection: u32,
    /// Attempts per second of a network that a reverse proxy names.
    forwarded: u32,
}

impl LoginBudgets {
    pub(crate) fn new(limits: &ConsoleLimits) -> Self {
        Self {
            clients: Mutex::default(),
            connection: limits.logins_per_second,
            forwarded: limits.forwarded_logins_per_second,
        }
    }

    /// Takes one attempt of a client. Returns false if it has none left.
    pub(crate) fn take(&self, origin: LoginOrigin) -> bool {
        let mut clients = self.clients.lock();
        // First, so that refused attempts use nothing of what all clients of a reverse proxy share.
        if origin.forwarded_for.is_some() && !take_of(&mut clients, origin, self.forwarded) {
            return false;
        }
        let connection = LoginOrigin {
            forwarded_for: None,
            ..origin
        };
        take_of(&mut clients, connection, self.connection)
    }
}

fn take_of(
    clients: &mut HashMap<LoginOrigin, RequestBudget>,
    origin: LoginOrigin,
    per_second: u32,
) -> bool {
    let mut origin = origin;
    if clients.len() >= CLIENTS_MAX && !clients.contains_key(&origin) {
        clients.retain(|_, budget| !budget.is_full());
        if clients.len() >= CLIENTS_MAX {
            origin = LoginOrigin::default();
        }
    }
    let budget = clients
        .entry(origin)
        .or_insert_with(|| RequestBudget::new(per_second, per_second.saturating_mul(4)));
    budget.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(connection: &str, forwarded_for: Option<&str>) -> LoginOrigin {
        LoginOrigin::of_client(&LoginClient {
            address: connection.parse().ok(),
            forwarded_for: forwarded_for.and_then(|address| address.parse().ok()),
            user_agent: None,
        })
    }

    fn budgets() -> LoginBudgets {
        LoginBudgets::new(&ConsoleLimits {
            logins_per_second: 10,
            forwarded_logins_per_second: 2,
            ..ConsoleLimits::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn login_budget_of_one_client_leaves_that_of_others() {
        let budgets = budgets();
        let stranger = origin("192.0.2.1", None);
        assert_eq!((0..100).filter(|_| budgets.take(stranger)).count(), 40);
        // Names that the stranger invents change nothing.
        let invented = (0..100).map(|n| origin("192.0.2.1", Some(&format!("198.51.100.{n}"))));
        assert_eq!(invented.filter(|named| budgets.take(*named)).count(), 0);
        assert!(budgets.take(origin("192.0.2.2", None)));
        // Behind a reverse proxy.
        let stranger = origin("10.0.0.1", Some("203.0.113.1"));
        assert_eq!((0..1000).filter(|_| budgets.take(stranger)).count(), 8);
        assert!(budgets.take(origin("10.0.0.1", Some("203.0.113.2"))));
        // The addresses of one network are one client.
        let addresses = (0..100).map(|n| origin(&format!("2001:db8::{n}"), None));
        assert_eq!(addresses.filter(|one| budgets.take(*one)).count(), 40);
        assert!(budgets.take(origin("2001:db8:0:1::1", None)));
    }

    #[tokio::test(start_paused = true)]
    async fn login_budget_of_an_ipv4_client_leaves_that_of_others_in_either_form() {
        let budgets = budgets();
        for (stranger, other) in [
            ("203.0.113.1", "203.0.113.2"),
            ("::ffff:198.51.100.1", "::ffff:198.51.100.2"),
        ] {
            let forwarded = origin("10.0.0.1", Some(stranger));
            assert_eq!((0..100).filter(|_| budgets.take(forwarded)).count(), 8);
            assert!(budgets.take(origin("10.0.0.1", Some(other))), "{other}");
            assert!(budgets.take(origin(other, None)), "{other}");
        }
        let (plain, mapped) = ("198.51.100.9", "::ffff:198.51.100.9");
        assert_eq!(origin(plain, Some(plain)), origin(mapped, Some(mapped)));
    }

    #[tokio::test(start_paused = true)]
    async fn login_budgets_are_bounded() {
        let budgets = budgets();
        let address = |n: usize| origin(&format!("10.{}.{}.1", n / 256, n % 256), None);
        let taken = (0..CLIENTS_MAX + 1000).filter(|n| budgets.take(address(*n)));
        assert_eq!(taken.count(), CLIENTS_MAX + 40);
        assert_eq!(budgets.clients.lock().len(), CLIENTS_MAX + 1);
        tokio::time::advance(std::time::Duration::from_secs(10)).await;
        assert!(budgets.take(address(CLIENTS_MAX + 2000)));
        assert_eq!(budgets.clients.lock().len(), 1);
    }
}
