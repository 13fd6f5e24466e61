//! Accounting of a call's resources, summed over all memories, tables and instances.

use wasmtime::{ResourceLimiter, Result};

use mimir_core::Limits;

/// Limits the memories, tables and instances of one call. An allocation beyond a limit is refused, after which the guest
/// usually traps; the limit is stored, so that the error can name the cause.
pub(crate) struct StoreLimiter {
    memory: u64,
    max_memory: u64,
    peak: u64,
    tables: u64,
    max_table_elements: u64,
    instances: usize,
    limit: Option<&'static str>,
}

/// Maximum numbers of memories and tables of one call, whatever their size. Each takes a slot of the pool.
const MAX_MEMORIES: usize = 32;
const MAX_TABLES: usize = 128;

impl StoreLimiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            memory: 0,
            max_memory: limits.memory,
            peak: 0,
            tables: 0,
            max_table_elements: limits.table_elements,
            instances: limits.instances as usize,
            limit: None,
        }
    }

    /// Returns the peak memory use in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        self.peak
    }

    /// Returns the config key of the limit that was hit last, if any.
    pub(crate) fn limit_hit(&self) -> Option<&'static str> {
        self.limit
    }
}

impl ResourceLimiter for StoreLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let total = self.memory.saturating_add((desired - current) as u64);
        if total > self.max_memory {
            self.limit = Some("limits.memoryMb");
            return Ok(false);
        }
        self.memory = total;
        self.peak = self.peak.max(total);
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> Result<()> {
        // The failed allocation was counted above. The sum may now be too high, which only tightens the limit.
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let total = self.tables.saturating_add((desired - current) as u64);
        if total > self.max_table_elements {
            self.limit = Some("limits.tableElements");
            return Ok(false);
        }
        self.tables = total;
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.instances
    }

    fn tables(&self) -> usize {
        MAX_TABLES
    }

    fn memories(&self) -> usize {
        MAX_MEMORIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_beyond_the_memory_maximum_is_not_counted() {
        let mut limiter = StoreLimiter::new(&Limits::default());
        let page = 64 << 10;
        assert!(limiter.memory_growing(0, page, Some(2 * page)).unwrap());
        for _ in 0..10 {
            let grown = limiter.memory_growing(page, 1000 * page, Some(2 * page));
            assert!(!grown.unwrap());
        }
        assert!(
            limiter
                .memory_growing(page, 2 * page, Some(2 * page))
                .unwrap()
        );
        assert_eq!(
            (limiter.peak_memory(), limiter.limit_hit()),
            (2 * page as u64, None)
        );
    }

    #[test]
    fn growth_beyond_the_table_maximum_is_not_counted() {
        let limits = Limits::default();
        let mut limiter = StoreLimiter::new(&limits);
        let allowed = usize::try_from(limits.table_elements).unwrap();
        assert!(limiter.table_growing(0, 1, Some(2)).unwrap());
        assert!(!limiter.table_growing(1, 1 + allowed, Some(2)).unwrap());
        assert_eq!(limiter.limit_hit(), None);
        assert!(!limiter.table_growing(1, 1 + allowed, None).unwrap());
        assert_eq!(limiter.limit_hit(), Some("limits.tableElements"));
    }
}
