-- SPDX-License-Identifier: Apache-2.0
-- Mixtures of experts.
return {}
