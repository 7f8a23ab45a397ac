// SPDX-License-Identifier: Apache-2.0
// Recurrences over fixed states: the tensor of sequence s begins at pages[s, 0] + offset of the pool. Matrix states have
// a block per sequence and head, whose threads own columns (rows for dplr) of the matrix and go through the tokens in
// order; channel states have a thread per sequence and channel. A sequence without tokens keeps its state.
#include "dialect/values.fl.h"

#define FL_STATE(s) ((FL_GLOBAL(float))(pool + pages[(fl_i64)(s) * max_pages] + offset))

//@if FL_CONV1D
FL_KERNEL(conv1d)(FL_GLOBAL(const float) x, FL_GLOBAL(const fl_u8) weight, FL_GLOBAL(const fl_u8) bias,
                  FL_GLOBAL(float) out, FL_GLOBAL(fl_u8) pool, FL_GLOBAL(const fl_i64) pages,
                  FL_GLOBAL(const fl_i32) row_sequence, FL_GLOBAL(const fl_i32) sequences, fl_i64 total,
                  fl_i32 max_pages, fl_i64 offset, fl_i32 channels, fl_i32 taps, fl_i32 dilation, fl_i32 biased) {
  const fl_i64 at = fl_global_id(0);
  if (at >= total) return;
  const fl_i32 c = (fl_i32)(at % channels);
  const fl_i32 t = (fl_i32)(at / channels);
  const fl_i32 s = row_sequence[t];
  const fl_i32 first = sequences[4 * s];
  const fl_i32 kept = (taps - 1) * dilation;
  FL_GLOBAL(const float) state = FL_STATE(s);
  float sum = biased != 0 ? FL_LOAD_B(bias, c) : 0.0f;
  for (fl_i32 j = 0; j < taps; ++j) {
    const fl_i32 row = t - first - (taps - 1 - j) * dilation;
    const float v = row >= 0 ? x[(fl_i64)(first + row) * channels + c] : state[(fl_i64)(kept + row) * channels + c];
    sum += FL_LOAD_W(weight, (fl_i64)c * taps + j) * v;
  }
  out[at] = sum;
}
// Moves the last rows into the state, once all results are there.
FL_KERNEL(conv1d_keep)(FL_GLOBAL(const float) x, FL_GLOBAL(fl_u8) pool, FL_GLOBAL(const fl_i64) pages,
                       FL_GLOBAL(const fl_i32) sequences, fl_i64 total, fl_i32 max_pages, fl_i64 offset,
                       fl_i32 channels, fl_i32 kept) {
  const fl_i64 at = fl_global_id(0);
  if (at >= total) return;
  const fl_i32 c = (fl_i32)(at % channels);
  const fl_i32 s = (fl_i32)(at / channels);
  const fl_i64 first = sequences[4 * s];
  const fl_i32 count = sequences[4 * s + 1];
  FL_GLOBAL(float) state = FL_STATE(s);
  for (fl_i32 r = 0; r < kept; ++r) {
    const fl_i32 from = r + count;
    state[(fl_i64)r * channels + c] =
        from < kept ? state[(fl_i64)from * channels + c] : x[(first + from - kept) * channels + c];
  }
}
//@end

//@if FL_MATRIX
// S is [Dk][Dv]; FL_DELTA takes back what the key already holds before it adds. decay_kind: 0 one logarithm per head, 1
// per token and head, 2 per token, head and row of S.
#define FL_THREADS 64
FL_KERNEL(recur_matrix)(FL_GLOBAL(const float) q, FL_GLOBAL(const float) k, FL_GLOBAL(const float) v,
                        FL_GLOBAL(const fl_u8) decay, FL_GLOBAL(const float) beta, FL_GLOBAL(const fl_u8) bonus,
                        FL_GLOBAL(float) out, FL_GLOBAL(fl_u8) pool, FL_GLOBAL(const fl_i64) pages,
                        FL_GLOBAL(const fl_i32) sequences, fl_i32 max_pages, fl_i64 offset, fl_i32 groups,
                        fl_i32 heads, fl_i32 key, fl_i32 value, fl_i32 decay_kind, fl_i32 has_bonus,
                        FL_DYNAMIC_LOCAL_PARAM) {
  FL_DYNAMIC_LOCAL(float, shared);  // the token's factors, key and query: 3 key
  FL_LOCAL_POINTER(float) factors = shared;
  FL_LOCAL_POINTER(float) keys = shared + key;
  FL_LOCAL_POINTER(float) queries = shared + 2 * key;
  const fl_i32 h = fl_group_id(0);
  const fl_i32 s = fl_group_id(1);
  const fl_i32 g = h / (heads / groups);
  const fl_i32 count = sequences[4 * s + 1];
  FL_GLOBAL(float) state = FL_STATE(s) + (fl_i64)h * key * value;
  for (fl_i32 n = 0; n < count; ++n) {
    const fl_i64 t = sequences[4 * s] + n;
    FL_BARRIER();
    for (fl_i32 i = fl_local_id(0); i < key; i += FL_THREADS) {
      const fl_i64 at = decay_kind == 0 ? h : decay_kind == 1 ? t * heads + h : (t * heads + h) * key + i;
      factors[i] = fl_exp(FL_LOAD_D(decay, at));
      keys[i] = k[(t * groups + g) * key + i];
      queries[i] = q[(t * groups + g) * key + i];
    }
    FL_BARRIER();
    for (fl_i32 j = fl_local_id(0); j < value; j += FL_THREADS) {
      const fl_i64 at = (t * heads + h) * value + j;
      float added = v[at];
      float sum = 0.0f;
#ifdef FL_DELTA
      float seen = 0.0f;
      for (fl_i32 i = 0; i < key; ++i) seen += keys[i] * (state[(fl_i64)i * value + j] * factors[i]);
      added = beta[t * heads + h] * (added - seen);
#endif
      for (fl_i32 i = 0; i < key; ++i) {
        const float before = state[(fl_i64)i * value + j];
        const float more = keys[i] * added;
        const float after = factors[i] * before + more;
        state[(fl_i64)i * value + j] = after;
        sum += queries[i] * (has_bonus != 0 ? before + FL_LOAD_B(bonus, (fl_i64)h * key + i) * more : after);
      }
      out[at] = sum;
    }
  }
}
//@end

//@if FL_DPLR
// S is [Dv][Dk], a thread owns rows of it.
#define FL_THREADS 64
FL_KERNEL(recur_dplr)(FL_GLOBAL(const float) r, FL_GLOBAL(const float) w, FL_GLOBAL(const float) k,
                      FL_GLOBAL(const float) v, FL_GLOBAL(const float) a, FL_GLOBAL(const float) b,
                      FL_GLOBAL(float) out, FL_GLOBAL(fl_u8) pool, FL_GLOBAL(const fl_i64) pages,
                      FL_GLOBAL(const fl_i32) sequences, fl_i32 max_pages, fl_i64 offset, fl_i32 heads, fl_i32 key,
                      fl_i32 value, FL_DYNAMIC_LOCAL_PARAM) {
  FL_DYNAMIC_LOCAL(float, factors);
  const fl_i32 h = fl_group_id(0);
  const fl_i32 s = fl_group_id(1);
  const fl_i32 count = sequences[4 * s + 1];
  FL_GLOBAL(float) state = FL_STATE(s) + (fl_i64)h * key * value;
  for (fl_i32 n = 0; n < count; ++n) {
    const fl_i64 row = (fl_i64)(sequences[4 * s] + n) * heads + h;
    FL_BARRIER();
    for (fl_i32 i = fl_local_id(0); i < key; i += FL_THREADS) factors[i] = fl_exp(w[row * key + i]);
    FL_BARRIER();
    for (fl_i32 j = fl_local_id(0); j < value; j += FL_THREADS) {
      FL_GLOBAL(float) line = state + (fl_i64)j * key;
      float seen = 0.0f;
      for (fl_i32 i = 0; i < key; ++i) seen += line[i] * a[row * key + i];
      const float added = v[row * value + j];
      float sum = 0.0f;
      for (fl_i32 i = 0; i < key; ++i) {
        const float after = line[i] * factors[i] + seen * b[row * key + i] + added * k[row * key + i];
        line[i] = after;
        sum += after * r[row * key + i];
      }
      out[row * value + j] = sum;
    }
  }
}
//@end

//@if FL_SELECTIVE
FL_KERNEL(recur_selective)(FL_GLOBAL(const float) x, FL_GLOBAL(const float) dt, FL_GLOBAL(const fl_u8) a,
                           FL_GLOBAL(const float) b, FL_GLOBAL(const float) c, FL_GLOBAL(float) out,
                           FL_GLOBAL(fl_u8) pool, FL_GLOBAL(const fl_i64) pages, FL_GLOBAL(const fl_i32) sequences,
                           fl_i64 total, fl_i32 max_pages, fl_i64 offset, fl_i32 channels, fl_i32 states) {
  const fl_i64 at = fl_global_id(0);
  if (at >= total) return;
  const fl_i32 channel = (fl_i32)(at % channels);
  const fl_i32 s = (fl_i32)(at / channels);
  FL_GLOBAL(float) state = FL_STATE(s) + (fl_i64)channel * states;
  for (fl_i32 i = 0; i < sequences[4 * s + 1]; ++i) {
    const fl_i64 t = sequences[4 * s] + i;
    const float step = dt[t * channels + channel];
    const float value = x[t * channels + channel];
    float sum = 0.0f;
    for (fl_i32 n = 0; n < states; ++n) {
      const float after =
          fl_exp(step * FL_LOAD_W(a, (fl_i64)channel * states + n)) * state[n] + step * b[t * states + n] * value;
      state[n] = after;
      sum += c[t * states + n] * after;
    }
    out[t * channels + channel] = sum;
  }
}
//@end

//@if FL_CHANNELS
// h <- a h + b, y = h; with FL_SHIFT y is the row before (a alone is read).
FL_KERNEL(recur_channels)(FL_GLOBAL(const float) a, FL_GLOBAL(const float) b, FL_GLOBAL(float) out,
                          FL_GLOBAL(fl_u8) pool, FL_GLOBAL(const fl_i64) pages, FL_GLOBAL(const fl_i32) sequences,
                          fl_i64 total, fl_i32 max_pages, fl_i64 offset, fl_i32 channels) {
  const fl_i64 at = fl_global_id(0);
  if (at >= total) return;
  const fl_i32 c = (fl_i32)(at % channels);
  const fl_i32 s = (fl_i32)(at / channels);
  FL_GLOBAL(float) state = FL_STATE(s);
  float h = state[c];
  for (fl_i32 i = 0; i < sequences[4 * s + 1]; ++i) {
    const fl_i64 place = (fl_i64)(sequences[4 * s] + i) * channels + c;
#ifdef FL_SHIFT
    out[place] = h;
    h = a[place];
#else
    h = a[place] * h + b[place];
    out[place] = h;
#endif
  }
  state[c] = h;
}
//@end

//@if FL_RECENT
// The ids of a token and of those before it; then the token joins the history. Rows of the batch are read from it, so
// that no thread reads what another writes.
FL_KERNEL(recent_tokens)(FL_GLOBAL(const fl_i32) tokens, FL_GLOBAL(fl_i32) out, FL_GLOBAL(fl_u8) pool,
                         FL_GLOBAL(const fl_i64) pages, FL_GLOBAL(const fl_i32) row_sequence,
                         FL_GLOBAL(const fl_i32) sequences, fl_i64 total, fl_i32 max_pages, fl_i64 offset,
                         fl_i32 page_rows, fl_i32 count) {
  const fl_i64 t = fl_global_id(0);
  if (t >= total) return;
  const fl_i32 s = row_sequence[t];
  const fl_i32 i = (fl_i32)t - sequences[4 * s];
  const fl_i32 start = sequences[4 * s + 2];
  for (fl_i32 j = 0; j < count; ++j) {
    const fl_i32 position = start + i - j;
    fl_i32 id = -1;
    if (j <= i) {
      id = tokens[t - j];
    } else if (position >= 0) {
      FL_GLOBAL(const fl_u8) page = pool + pages[(fl_i64)s * max_pages + position / page_rows] + offset;
      id = fl_at(const fl_i32, page, position % page_rows);
    }
    out[t * count + j] = id;
  }
  FL_GLOBAL(fl_u8) own = pool + pages[(fl_i64)s * max_pages + (start + i) / page_rows] + offset;
  fl_at(fl_i32, own, (start + i) % page_rows) = tokens[t];
}
//@end
