/* The ownership of sessions: two replicas, one session, two clients with a turn each, one crash, one
 * pause (a lease that ends while its replica lives), one lost message, one transaction whose outcome
 * is unknown and that is made at any later time, or never. docs/fleet.md describes the protocol;
 * service/sessions/fleet is the program.
 *
 * Each step of a replica is atomic: an event and what follows from it. A transaction is one step of
 * the database. Drains, relays, closes, redirects and restarts of the database are not here; the
 * simulation has them. A time limit is over only when what it waits for cannot come any more; the
 * search of the C++ machine and the simulation have limits that are over too early.
 *
 * A turn can be committed only on the head on which it has started. If the other turn was committed
 * meanwhile, it is abandoned, and its client is told so.
 *
 * The switches are errors that must be found (spin_test.py):
 *   NO_FENCE          transactions do not compare epoch and version
 *   NO_EPOCHS         a change of the owner raises neither epoch nor version
 *   CLAIM_LIVING      a session is claimed while the lease of its owner holds
 *   NO_TRANSFER       a receiver takes the session without a transaction
 *   UNKNOWN_IS_MADE   a commit whose outcome is unknown is acknowledged
 *   ANSWER_EARLY      a turn is acknowledged before its commit
 *   OLD_COPY          the copy of a session that was lost is kept, and used later
 *   DISOWN            an owner that does not know that it is one refuses the session
 *   GIVE_FOREVER      no time limit for the transaction of a receiver
 *   WAIT_FOREVER      no time limit for the answer of an owner
 *   RUN_ABANDONED     a turn runs although the head has moved since its start
 */
#define NONE 7 /* no copy */
#define NAME(r) ((r) * 2 + incarnation[r])
#define OTHER(r) (1 - (r))

mtype = { FREE, READING, CLAIMING, FETCHING, TRANSFERRING, STARTING, RUNNING, COMMITTING, GIVING };
mtype = { FETCH, GIVEN, NOT_MINE, NOT_NOW };           /* messages */
mtype = { NOTHING, COMMITTED, ABANDONED, AGAIN };      /* answers */

/* ---- the database: a row, the leases, the turns */
byte owner;            /* the name of a replica */
byte epoch = 1;
byte version = 1;
byte head;             /* how many turns are committed */
byte turn[2];          /* 0: none, 1: started, 2: committed */
byte parent[2];        /* the head when the turn started */
bool lease[4];         /* by name */
bool used[64];         /* an epoch and a version that a change has expected */
bool made;             /* the outcome of the last transaction */

/* ---- a replica */
bool up[2];
bit incarnation[2];
bool owned[2];
byte my_epoch[2];
byte my_version[2];
byte copy[2] = NONE;   /* how many turns the copy has */
mtype phase[2] = FREE;
bit work[2];           /* the turn */
bool unknown[2];       /* the row must be read to find out what a transaction did */
byte fence_epoch[2];
byte fence_version[2];
chan to[2] = [2] of { mtype, byte, byte, byte }; /* epoch, version, copy or turn */

/* ---- a transaction that may be made later */
mtype late = FREE;
byte late_epoch; byte late_version; byte late_name; bit late_turn; byte late_base;

/* ---- clients */
byte asked[2];         /* 0: nobody; r + 1: replica r has not looked at the call yet */
byte served_by[2];     /* r + 1: replica r works for the call */
mtype answer[2] = NOTHING;
bool done[2];

/* ---- what may still go wrong */
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef PAUSES
#define PAUSES 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef UNKNOWNS
#define UNKNOWNS 1
#endif
bit crashes = CRASHES;
bit pauses = PAUSES;
bit losses = LOSSES;
bit unknowns = UNKNOWNS;

#define HEAD_MOVED(t) (turn[t] == 1 && parent[t] != head)

#ifdef NO_FENCE
#define FITS(e, v) true
#else
#define FITS(e, v) (epoch == (e) && version == (v))
#endif

/* To the other replica. One that is down gets nothing. */
inline send(r, what, x, y, z) {
  if
  :: up[OTHER(r)] && len(to[OTHER(r)]) < 2 -> to[OTHER(r)]!what(x, y, z)
  :: !up[OTHER(r)] || len(to[OTHER(r)]) == 2 -> skip
  fi
}

inline raise_version(e, v) {
#ifndef NO_EPOCHS
  assert(!used[((e) & 7) * 8 + ((v) & 7)]);
#endif
  used[((e) & 7) * 8 + ((v) & 7)] = true;
  version++
}

/* A transaction of the replica `name` that expects (e, v). Sets `made`. */
inline apply(kind, e, v, name, t, base) {
  made = false;
  if
  :: !(FITS(e, v)) -> skip
  :: else ->
     if
     :: kind == CLAIMING || kind == TRANSFERRING ->
        if
        :: !lease[name] -> skip
#ifndef CLAIM_LIVING
        :: lease[name] && kind == CLAIMING && lease[owner] -> skip
        :: lease[name] && !(kind == CLAIMING && lease[owner]) ->
#else
        :: lease[name] ->
#endif
           assert(kind == TRANSFERRING || !lease[owner]);
           owner = name;
#ifndef NO_EPOCHS
           raise_version(e, v);
           epoch++;
#endif
           made = true
        fi
     :: kind == STARTING ->
        if
        :: turn[t] != 0 -> skip
        :: else ->
           assert(owner == name);
           turn[t] = 1; parent[t] = head; raise_version(e, v); made = true
        fi
     :: kind == COMMITTING ->
        if
        :: turn[t] != 1 || HEAD_MOVED(t) -> skip
        :: else ->
           assert(owner == name);   /* only the owner commits */
           assert(base == head);    /* computed from the history that the store has */
           turn[t] = 2; head++; raise_version(e, v); made = true
        fi
     :: else -> assert(false)
     fi
  fi
}

inline reply(t, what) {
  if
  :: served_by[t] != 0 ->
     assert(what != COMMITTED || turn[t] == 2);   /* nothing is acknowledged that is not committed */
     assert(what != ABANDONED || HEAD_MOVED(t));
     answer[t] = what; served_by[t] = 0
  :: else -> skip
  fi
}

#ifdef OLD_COPY
#define DROP(r) skip
#else
#define DROP(r) copy[r] = NONE
#endif

inline lose(r) {
  owned[r] = false; DROP(r)
}

inline finish(r, what) {
  reply(work[r], what);
  phase[r] = FREE; unknown[r] = false;
  fence_epoch[r] = 0; fence_version[r] = 0; work[r] = 0;
  if
  :: !owned[r] -> DROP(r); my_epoch[r] = 0; my_version[r] = 0
  :: else -> skip
  fi
}

inline acquired(r) {
  owned[r] = true;
  my_epoch[r] = fence_epoch[r] + 1; my_version[r] = fence_version[r] + 1;
  phase[r] = READING; unknown[r] = false     /* what is the turn's state? */
}

/* What the row says about the owner. */
inline believe(r) {
  if
  :: owner != NAME(r) -> lose(r)
  :: else ->
     if
     :: !owned[r] || my_epoch[r] != epoch || my_version[r] != version -> DROP(r)
     :: else -> skip
     fi;
     owned[r] = true; my_epoch[r] = epoch; my_version[r] = version
  fi
}

/* The transaction of the phase is made now, or its outcome is unknown. */
inline transact(r) {
  if
  :: true -> apply(phase[r], fence_epoch[r], fence_version[r], NAME(r), work[r], copy[r])
     if
     :: made && (phase[r] == CLAIMING || phase[r] == TRANSFERRING) -> acquired(r)
     :: made && phase[r] == STARTING -> my_version[r]++; phase[r] = RUNNING
     :: made && phase[r] == COMMITTING -> my_version[r]++; copy[r]++; finish(r, COMMITTED)
     :: !made && phase[r] == CLAIMING -> finish(r, AGAIN)
     :: !made && phase[r] == TRANSFERRING -> copy[r] = NONE; finish(r, AGAIN)
     :: !made && (phase[r] == STARTING || phase[r] == COMMITTING) ->
        lose(r); finish(r, AGAIN)
     fi
  :: unknowns > 0 && late == FREE ->
     unknowns--;
     late = phase[r]; late_epoch = fence_epoch[r]; late_version = fence_version[r];
     late_name = NAME(r); late_turn = work[r]; late_base = copy[r];
#ifdef UNKNOWN_IS_MADE
     if
     :: phase[r] == COMMITTING -> my_version[r]++; copy[r]++; finish(r, COMMITTED)
     :: else -> unknown[r] = true
     fi
#else
     unknown[r] = true
#endif
  fi
}

/* Reads the row to find out what a transaction did. If the row is unchanged, the same transaction is
 * made again: one of the two is made. */
inline settle(r) {
  unknown[r] = false;
  if
  :: phase[r] == CLAIMING || phase[r] == TRANSFERRING ->
     if
     :: owner == NAME(r) && epoch == fence_epoch[r] + 1 && version == fence_version[r] + 1 ->
        acquired(r)
     :: else -> copy[r] = NONE; finish(r, AGAIN)
     fi
  :: phase[r] == STARTING ->
     if
     :: epoch == fence_epoch[r] && version == fence_version[r] -> skip
     :: epoch == fence_epoch[r] && version == fence_version[r] + 1 && owner == NAME(r) &&
        turn[work[r]] == 1 -> my_version[r]++; phase[r] = RUNNING
     :: else -> lose(r); finish(r, AGAIN)
     fi
  :: phase[r] == COMMITTING ->
     if
     :: turn[work[r]] == 2 && owner == NAME(r) && epoch == fence_epoch[r] &&
        version == fence_version[r] + 1 -> my_version[r]++; copy[r]++; finish(r, COMMITTED)
     :: turn[work[r]] == 2 && !(owner == NAME(r) && epoch == fence_epoch[r] &&
        version == fence_version[r] + 1) -> lose(r); finish(r, COMMITTED)
     :: turn[work[r]] != 2 && epoch == fence_epoch[r] && version == fence_version[r] -> skip
     :: turn[work[r]] != 2 && !(epoch == fence_epoch[r] && version == fence_version[r]) ->
        lose(r); finish(r, AGAIN)
     fi
  fi
}

inline use_row(r) {
  if
  :: turn[work[r]] == 2 -> finish(r, COMMITTED)
#ifndef RUN_ABANDONED
  :: HEAD_MOVED(work[r]) -> finish(r, ABANDONED)
#endif
  :: else ->
     believe(r);
     fence_epoch[r] = epoch; fence_version[r] = version;
     if
     :: owned[r] && turn[work[r]] == 1 -> phase[r] = RUNNING
     :: owned[r] && turn[work[r]] == 0 -> phase[r] = STARTING
     :: !owned[r] && lease[owner] ->
#ifdef CLAIM_LIVING
        phase[r] = CLAIMING
#else
        /* the owner may be this replica before a crash; then nobody answers */
        if
        :: owner / 2 == OTHER(r) && owner == NAME(OTHER(r)) && up[OTHER(r)] ->
           phase[r] = FETCHING;
           send(r, FETCH, epoch, 0, work[r])
        :: else -> finish(r, AGAIN)
        fi
#endif
     :: !owned[r] && !lease[owner] -> phase[r] = CLAIMING
     fi
  fi
}

inline give(r) {
  phase[r] = GIVING;
  send(r, GIVEN, my_epoch[r], my_version[r], copy[r])
}

/* The peer asks for the session. */
inline on_fetch(r, e) {
  if
  :: phase[r] == FREE && (!owned[r] || e != my_epoch[r]) ->
#ifdef DISOWN
     send(r, NOT_MINE, 0, 0, 0)
#else
     believe(r);
     if
     :: owned[r] -> give(r)
     :: else -> my_epoch[r] = 0; my_version[r] = 0; send(r, NOT_MINE, 0, 0, 0)
     fi
#endif
  :: phase[r] == FREE && owned[r] && e == my_epoch[r] -> give(r)
  :: phase[r] == GIVING -> give(r)
  :: phase[r] != FREE && phase[r] != GIVING -> send(r, NOT_NOW, 0, 0, 0)
  fi
}

inline on_message(r) {
  to[r]?kind, a, b, c;
  if
  :: losses > 0 -> losses--                      /* it was lost */
  :: kind == FETCH -> on_fetch(r, a)
  :: kind == GIVEN && phase[r] == FETCHING ->
     fence_epoch[r] = a; fence_version[r] = b; copy[r] = c;
#ifdef NO_TRANSFER
     owned[r] = true; my_epoch[r] = a; my_version[r] = b; phase[r] = STARTING
#else
     phase[r] = TRANSFERRING
#endif
  :: (kind == NOT_MINE || kind == NOT_NOW) && phase[r] == FETCHING -> finish(r, AGAIN)
  :: kind != FETCH && phase[r] != FETCHING -> skip   /* it is late */
  fi;
  kind = 0; a = 0; b = 0; c = 0
}

/* A call for turn t. It has waited until the replica was free. */
inline arrive(r, t) {
  served_by[t] = r + 1;
  work[r] = t;
  if
  :: owned[r] && turn[t] == 0 ->
     fence_epoch[r] = my_epoch[r]; fence_version[r] = my_version[r];
     phase[r] = STARTING
  :: else -> phase[r] = READING     /* the store says that the turn exists, or the row is not known */
  fi
}

#define CAN_BEGIN(r) (up[r] && lease[NAME(r)] && phase[r] == FREE)
/* Nothing that the replica waits for can still come. */
#define NO_ANSWER(r) (len(to[r]) == 0 && (!up[OTHER(r)] || len(to[OTHER(r)]) == 0))
#define NO_RECEIVER(r) (!up[OTHER(r)] || \
                        (len(to[OTHER(r)]) == 0 && len(to[r]) == 0 && \
                         phase[OTHER(r)] != FETCHING && phase[OTHER(r)] != TRANSFERRING))

/* The messages of a replica have a process of their own: fairness among processes then keeps them from
 * holding up its work for ever. */
proctype inbox(bit r) {
  mtype kind; byte a; byte b; byte c;
end:
  do
  :: atomic { up[r] && len(to[r]) > 0 -> on_message(r) }
  od
}

proctype replica(bit r) {
end:
  do
  /* a call arrives */
  :: atomic { CAN_BEGIN(r) && asked[0] == r + 1 -> asked[0] = 0; arrive(r, 0) }
  :: atomic { CAN_BEGIN(r) && asked[1] == r + 1 -> asked[1] = 0; arrive(r, 1) }
  :: atomic { up[r] && phase[r] == READING -> use_row(r) }
  :: atomic { up[r] && phase[r] == RUNNING ->
       if
       :: copy[r] == NONE -> copy[r] = head     /* restored from the log */
       :: else -> skip
       fi;
       fence_epoch[r] = my_epoch[r]; fence_version[r] = my_version[r];
#ifdef ANSWER_EARLY
       reply(work[r], COMMITTED);
#endif
       phase[r] = COMMITTING }
  :: atomic { up[r] && !unknown[r] &&
       (phase[r] == CLAIMING || phase[r] == TRANSFERRING || phase[r] == STARTING ||
        phase[r] == COMMITTING) -> transact(r) }
  :: atomic { up[r] && unknown[r] -> settle(r) }
#ifndef WAIT_FOREVER
  :: atomic { up[r] && phase[r] == FETCHING && NO_ANSWER(r) -> finish(r, AGAIN) }
#endif
#ifndef GIVE_FOREVER
  :: atomic { up[r] && phase[r] == GIVING && NO_RECEIVER(r) ->
       phase[r] = FREE;
       apply(TRANSFERRING, my_epoch[r], my_version[r], NAME(r), 0, 0);   /* to itself */
       if
       :: made -> my_epoch[r]++; my_version[r]++
       :: else -> believe(r)
       fi;
       if
       :: !owned[r] -> my_epoch[r] = 0; my_version[r] = 0
       :: else -> skip
       fi }
#endif
  /* the lease is renewed; rows are read again */
  :: atomic { up[r] && !lease[NAME(r)] ->
       lease[NAME(r)] = true;
       if
       :: phase[r] == FREE && owned[r] ->
          believe(r);
          if
          :: !owned[r] -> my_epoch[r] = 0; my_version[r] = 0
          :: else -> skip
          fi
       :: else -> skip
       fi }
  od
}

/* Sends its turn, to any replica, until it is acknowledged or abandoned. */
proctype client(bit t) {
  do
  :: atomic { answer[t] == COMMITTED || answer[t] == ABANDONED ->
       answer[t] = NOTHING; done[t] = true; break }
  :: atomic { answer[t] != COMMITTED && answer[t] != ABANDONED && asked[t] == 0 && served_by[t] == 0 ->
       answer[t] = NOTHING;
       if
       :: up[0] -> asked[t] = 1
       :: up[1] -> asked[t] = 2
       fi }
  od
}

/* The lease of a replica that is dead ends; once, that of one that is only asleep. A transaction
 * whose outcome was unknown is made, or it is not. */
proctype world() {
end:
  do
  :: atomic { !up[0] && lease[NAME(0)] -> lease[NAME(0)] = false }
  :: atomic { !up[1] && lease[NAME(1)] -> lease[NAME(1)] = false }
  :: atomic { pauses > 0 && lease[NAME(0)] -> pauses--; lease[NAME(0)] = false }
  :: atomic { pauses > 0 && lease[NAME(1)] -> pauses--; lease[NAME(1)] = false }
  :: atomic { late != FREE ->
       if
       :: true -> apply(late, late_epoch, late_version, late_name, late_turn, late_base)
       :: true -> skip
       fi;
       late = FREE; late_epoch = 0; late_version = 0; late_name = 0; late_turn = 0; late_base = 0 }
  od
}

inline crash(r) {
  crashes--;
  up[r] = false; owned[r] = false; copy[r] = NONE; phase[r] = FREE; unknown[r] = false;
  work[r] = 0; my_epoch[r] = 0; my_version[r] = 0; fence_epoch[r] = 0; fence_version[r] = 0;
  do
  :: len(to[r]) > 0 -> to[r]?_, _, _, _
  :: len(to[r]) == 0 -> break
  od;
  if
  :: asked[0] == r + 1 || served_by[0] == r + 1 -> asked[0] = 0; served_by[0] = 0
  :: else -> skip
  fi;
  if
  :: asked[1] == r + 1 || served_by[1] == r + 1 -> asked[1] = 0; served_by[1] = 0
  :: else -> skip
  fi
}

/* A replica crashes at any moment, or never. It starts again, with another name, or never. */
proctype faults() {
  bit r;
  atomic {
    if
    :: true -> r = 0
    :: true -> r = 1
    fi
  }
  if
  :: atomic { crashes > 0 -> crash(r) }
  :: true -> goto end
  fi;
  if
  :: atomic { true ->
       lease[NAME(r)] = false; incarnation[r] = 1; lease[NAME(r)] = true; up[r] = true }
  :: true -> skip
  fi;
end:
  skip
}

init {
  atomic {
    up[0] = true; up[1] = true;
    lease[0] = true; lease[2] = true;
    owner = 0; owned[0] = true; my_epoch[0] = 1; my_version[0] = 1; copy[0] = 0;
    run replica(0); run replica(1); run inbox(0); run inbox(1);
    run client(0); run client(1); run world(); run faults()
  }
}

/* Every turn is acknowledged or abandoned in the end, so the session can always be claimed in the
 * end. */
ltl served { <> (done[0] && done[1]) }
